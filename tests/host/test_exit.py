"""No script that keeps an executable says anything on standard error when it ends, whatever it imports first and
however it ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import seeds
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import pythons

PYTHONS = ROOT / ".tools" / "pythons"

IMPORTS = {
    "JAX first": "import jax\njax.jit(lambda x: x + 1)(1.0)\nimport xla_wasm\n",
    "xla_wasm first": "import xla_wasm\nfrom xla_wasm.jax import lower\nimport jax\njax.jit(lambda x: x + 1)(1.0)\n",
    "no JAX": "import xla_wasm\n",
}
MODULE = """
import sys
import numpy as np
TEXT = "HloModule m\\n\\nENTRY e {\\n  x = f32[400000] parameter(0)\\n  ROOT y = f32[400000] negate(x)\\n}\\n"
artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(TEXT), xla_wasm.Options(threads=%s))
exe = xla_wasm.load(artifact%s)
x = np.ones(400000, np.float32)
exe.run(x)
"""
LOADED = {"plain": (False, ""), "limits": (False, ", timeout=60, fuel=10**9"), "threads": (True, ", threads=2")}
ENDS = {
    "at the end": "",
    "sys.exit": "sys.exit(0)",
    "an exception of its own": "try:\n    exe.run(1)\nexcept xla_wasm.ArgumentError:\n    pass\nsys.exit(0)",
    # JAX keeps its modules for ever; they are taken apart after those that were imported later.
    "kept by a module that stays": "import numpy\n(sys.modules.get('jax') or numpy).kept = exe",
    "errors that are kept": """
def failing():
    for options in ({"fuel": 1}, {"timeout": 1e-9}):
        try:
            xla_wasm.load(artifact, **options).run(x)
        except xla_wasm.LimitError as error:
            yield error
import numpy
(sys.modules.get("jax") or numpy).kept = (list(failing()), exe)
""",
    "a cycle that nobody collects": """
import gc
gc.disable()
class A: pass
a = A()
a.own, a.exe = a, exe
del a, exe
""",
    "a function that JAX keeps": """
if "jax" in sys.modules:
    import jax
    class P: pass
    jax.jit(lambda y: y + exe.run(x)[0].sum())(1.0)
    jax.tree_util.register_pytree_node(P, lambda p: ((), exe), lambda a, c: P())
""",
    "a daemon thread that runs it": """
import threading, time
def work():
    while True:
        exe.run(x)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
""",
    "a thread that outlives the script": """
import threading, time
def work():
    time.sleep(0.2)
    exe.run(x)
threading.Thread(target=work).start()
""",
    "a child by os.fork": """
import os
pid = os.fork()
exe.run(x)
if pid:
    assert os.waitpid(pid, 0)[1] == 0
elif "jax" in sys.modules:
    os._exit(0)  # as multiprocessing ends; a child of JAX that ends as scripts do crashes, without xla_wasm too
""",
    "cells of a notebook": """
import types
cells = types.ModuleType("cells")
sys.modules["cells"] = cells
names = vars(cells)
names |= {"exe": exe, "x": x, "own": names}
exec("def f():\\n    return exe.run(x)\\nOut = {1: f(), 2: exe}", names)
""",
    "atexit, registered before": "",
}
BEFORE = {"atexit, registered before": "import atexit\natexit.register(lambda: exe.run(x))\n"}


def cases() -> list[tuple[str, str, str]]:
    """Returns triples of the imports, a way of loading the module, and the script's end: every end with JAX first,
    which is the order that went wrong, and one in three with each of the others (all with --exhaustive)."""
    ends = [*((list(LOADED)[i % 3], end) for i, end in enumerate(ENDS)), ("threads", "at the end")]
    return [
        (imports, loaded, end)
        for i, (loaded, end) in enumerate(ends)
        for j, imports in enumerate(IMPORTS)
        if seeds.exhaustive or j == 0 or i % 3 == j
    ]


@pytest.mark.parametrize(("imports", "loaded", "end"), cases())
def test_ends_in_silence(imports: str, loaded: str, end: str) -> None:
    script = BEFORE.get(end, "") + IMPORTS[imports] + MODULE % LOADED[loaded] + ENDS[end]
    # JAX itself warns of os.fork.
    command = [sys.executable, "-W", "ignore:os.fork", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("imports", IMPORTS)
def test_an_exception_that_ends_the_script_is_all_that_is_said(imports: str) -> None:
    script = IMPORTS[imports] + MODULE % LOADED["plain"] + "(sys.modules.get('jax') or np).kept = exe\nexe.run()\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    assert done.stderr.splitlines()[-1].startswith("xla_wasm.errors.ArgumentError: 'm' takes 1 argument")


CALLS = """
import atexit
atexit.register(lambda: registered and kept.call())
import sys
import numpy as np
import xla_wasm
TEXT = "HloModule m\\n\\nENTRY e {\\n  x = f32[4] parameter(0)\\n  ROOT y = f32[4] negate(x)\\n}\\n"
x = np.ones(4, np.float32)
class Kept:
    def __init__(self):
        self.exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(TEXT)), timeout=60)
        self.exe.run(x)
        self.exe.run_replicated([[x], [x]])
    def call(self, say=sys.stdout.write, expected=xla_wasm.RunError, x=x):
        calls = {
            "run": lambda: self.exe.run(x),
            "run_replicated": lambda: self.exe.run_replicated([[x], [x]]),
            "profile": lambda: self.exe.profile(x),
            "input": lambda: self.exe.input("x"),
            "clone": self.exe.clone,
            "close": self.exe.close,
        }
        for name, call in calls.items():
            try:
                call()
                said = "done"
            except expected as error:
                said = str(error)
            say(name + ": " + said + "\\n")
kept = Kept()
registered = False
"""
FREED = "Kept.__del__ = lambda self, call=Kept.call: call(self)\n"
REFUSED = "'m' is called while Python ends: call it before, or in a function of atexit"
LAST = {
    "freed with the script": (FREED, REFUSED),
    "kept by a module that stays": (FREED + "np.kept = kept\ndel kept", REFUSED),
    "a cycle that nobody collects": (FREED + "import gc\ngc.disable()\nkept.own = kept\ndel kept", REFUSED),
    "atexit, registered before": ("registered = True", "done"),
    "weakref.finalize": ("import weakref\nweakref.finalize(xla_wasm, kept.call)", "done"),
}


@pytest.mark.parametrize(
    ("version", "last"),
    [(v, last) for v in pythons.found() for last in (LAST if v == pythons.OWN else list(LAST)[::3])],
)
def test_calls_while_the_interpreter_ends(version: str, last: str) -> None:
    """They do what they do at any time, as long as there are threads, and then raise an error of their own."""
    script, said = LAST[last]
    command = [str(pythons.python(PYTHONS, version)), "-c", CALLS + script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    names = ("run", "run_replicated", "profile", "input", "clone")
    assert done.stdout.splitlines() == [*(f"{name}: {said}" for name in names), "close: done"]
