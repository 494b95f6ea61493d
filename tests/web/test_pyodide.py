"""Compiling and running in Pyodide: in Node, and in Chromium on a page's main thread and in a worker."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import xla_wasm
import xla_wasm.jax
from tests.support import fake_js, host_checks
from tests.support.browsing import served
from tests.support.embedding_cases import ranged
from tests.support.node_host import node_for
from tests.support.once import PYODIDE, pyodide_folder
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import WAT, toy, toy_manifest, with_manifest
from tests.support.whole_programs import PROGRAMS
from xla_wasm.host.layouts import pack
from xla_wasm.options import Options

DIGITS = ROOT / "examples" / "digits"
CHECKS = ROOT / "tests" / "support" / "host_checks.py"
CHOSEN = ("digits_train_sgd", "transformer_gradient", "branches", "shuffling", "lstm_gradient", "conv_grouped_gradient")
FIELDS = {
    "depends",
    "file_name",
    "imports",
    "install_dir",
    "name",
    "package_type",
    "sha256",
    "tool",
    "unvendored_tests",
    "version",
}
FOREIGN = (
    "numpy",
    "ml_dtypes",
    "wasmtime",
    "typer",
    "rich",
    "jax",
    "starlette",
    "uvicorn",
    "python_multipart",
    "prometheus_client",
)
"""Packages that a module may miss in Pyodide: no module of the compile path may."""

TYPES = ("pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "f32", "f64", "c64")
TEXTS = {
    "types": "\n".join([*(f"p{i} = {t}[2] parameter({i})" for i, t in enumerate(TYPES))])
    + f"\nROOT r = ({', '.join(f'{t}[2]' for t in TYPES)}) tuple({', '.join(f'p{i}' for i in range(len(TYPES)))})",
    "tiled": "x = f32[3,5] parameter(0)\nROOT y = f32[3,5] add(x, x)",
    "dynamic": "x = f32[<=5] parameter(0)\nd = f32[<=5] add(x, x)\nz = f32[] constant(0)\n"
    "s = f32[] reduce(x, z), dimensions={0}, to_apply=sum\nROOT r = (f32[<=5], f32[]) tuple(d, s)",
    "columns": "x = f32[2,<=3] parameter(0)\nz = f32[] constant(0)\nn = s32[] get-dimension-size(x), dimensions={1}\n"
    "two = s32[] constant(2)\nm = s32[] multiply(n, two)\ns = f32[] convert(m)\n"
    "ROOT r = (f32[2,<=3], f32[]) tuple(x, s)",
    "alone": "x = f32[3] parameter(0)\ns = f32[3] all-reduce(x), replica_groups={}, to_apply=sum\n"
    "p = f32[3] collective-permute(x), source_target_pairs={{0,0}}\n"
    "ROOT r = (f32[3], f32[3]) tuple(s, p)",
    "feeds": """t = token[] after-all()
f = ((f32[<=4], s32[2]), token[]) infeed(t)
d = (f32[<=4], s32[2]) get-tuple-element(f), index=0
a = f32[<=4] get-tuple-element(d), index=0
b = s32[2] get-tuple-element(d), index=1
c = f32[<=4] add(a, a)
g = (f32[<=4], s32[2]) tuple(c, b)
o = token[] outfeed(g, t), outfeed_shape=(f32[<=4], s32[2])
s = (f32[<=4], u32[], token[]) send(c, o), is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="twice"}
n = token[] send-done(s), is_host_transfer=true
ROOT r = s32[2] copy(b)""",  # noqa: E501
    "custom": 'x = f32[3] parameter(0)\ny = f32[3] custom-call(x), custom_call_target="twice", backend_config="hello"\n'
    "one = f32[] constant(1)\nones = f32[3] broadcast(one), dimensions={}\nROOT z = f32[3] add(y, ones)",
}
SUM = "sum {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b)\n}\n"


def text_module(name: str) -> xla_wasm.HloModule:
    head = "HloModule m"
    if name == "tiled":
        head += ", entry_computation_layout={(f32[3,5]{1,0:T(2,2)})->f32[3,5]{0,1:T(2,2)}}"
    return xla_wasm.HloModule.from_text(
        f"{head}\n{SUM if 'to_apply' in TEXTS[name] else ''}ENTRY e {{\n{TEXTS[name]}\n}}\n"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pyodide_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that host_checks.py reads."""
    place = tmp_path_factory.mktemp("cases")
    toy().save(place / "toy.wasm")
    ranged().save(place / "ranged.wasm")
    toy(column_major=True).save(place / "column.wasm")
    for name, wat in {
        "imports": WAT.replace("(module", '(module (import "a" "b" (func))', 1),
        "no-step": WAT.replace('(export "step")', ""),
        "start": WAT.replace("(module", "(module (start $s) (func $s unreachable)", 1),
        "big": WAT.replace("1 1)", "2 2)"),
    }.items():
        toy(wat).save(place / f"{name}.wasm")
    (place / "damaged.wasm").write_bytes(with_manifest(b"\0asm\1\0\0\0" + bytes([10, 2, 1, 0xFF]), toy_manifest()))
    for name in TEXTS:
        xla_wasm.compile(text_module(name), Options(host_calls=("twice",) if name == "custom" else ())).save(
            place / f"{name}.wasm"
        )
    two = np.ones(2, np.float32)
    module = xla_wasm.jax.lower(
        lambda params, x, *, scale: {"y": params["w"] * x * scale + params["b"][0]},
        {"w": two, "b": [two]},
        two,
        scale=1.0,
    )
    xla_wasm.compile(module).save(place / "structures.wasm")
    xla_wasm.compile(module, Options(weights="params")).save(place / "stays.wasm")
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    tiled = xla_wasm.load(place / "tiled.wasm")
    (place / "tiled.in").write_bytes(pack(tiled.parameters[0].shape, x).tobytes())
    (place / "tiled.out").write_bytes(pack(tiled.results[0].shape, 2 * x).tobytes())
    return place


def in_node(folder: Path, script: str, data: Path) -> None:
    """Runs Python in Pyodide, with `data` as /data; what it raises fails the test."""
    file = data / "script.py"
    file.write_text(script)
    output([node_for("relaxed-simd"), ROOT / "tests/js/pyodide.mjs", folder, file, data])


def test_the_wheels_entry(folder: Path) -> None:
    """It has the fields of Pyodide's own lock file, and the types of their values; the lock file names nothing that is
    not there."""
    entry = json.loads((folder / "xla-wasm.lock.json").read_text())["xla-wasm"]
    own = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    assert set(entry) == FIELDS == set(own["packages"]["micropip"])
    assert {k: type(v) for k, v in entry.items()} == {k: type(v) for k, v in own["packages"]["micropip"].items()}
    assert entry["version"] == xla_wasm.__version__ and entry["imports"] == ["xla_wasm"] and entry["depends"] == []
    assert entry["sha256"] == hashlib.sha256((folder / entry["file_name"]).read_bytes()).hexdigest()
    lock = json.loads((folder / "pyodide-lock.json").read_text())
    assert lock["info"] == own["info"] and lock["packages"] == {"xla-wasm": entry}


def test_packages_beside_the_wheel_are_named(folder: Path, tmp_path: Path) -> None:
    """A package of Pyodide's own that lies in the folder comes into the lock file, if it is the file that Pyodide
    means."""
    from pyodide_package import lock_entry, package

    (wheel,) = folder.glob("xla_wasm-*.whl")
    fake = tmp_path / "pyodide"
    shutil.copytree(PYODIDE, fake)
    lock = json.loads((fake / "pyodide-lock.json").read_text())
    numpy = lock["packages"]["numpy"]
    out = tmp_path / "out"
    out.mkdir()
    (out / numpy["file_name"]).write_bytes(b"another file")
    with pytest.raises(SystemExit, match="is not the file"):
        package(wheel, fake, out, level=1)
    numpy["sha256"] = hashlib.sha256(b"another file").hexdigest()
    (fake / "pyodide-lock.json").write_text(json.dumps(lock))
    assert set(package(wheel, fake, out, level=1)["packages"]) == {"numpy", "xla-wasm"}

    native = tmp_path / wheel.name
    shutil.copyfile(wheel, native)
    with zipfile.ZipFile(native, "a") as archive:
        archive.writestr("xla_wasm/fast.so", b"")
    with pytest.raises(SystemExit, match="native code: xla_wasm/fast.so"):
        lock_entry(native)
    with pytest.raises(SystemExit, match="not a pure Python wheel"):
        lock_entry(tmp_path / "xla_wasm-1-cp311-cp311-linux_x86_64.whl")


IMPORTS = """
import importlib, pathlib, sys, xla_wasm
root = pathlib.Path(xla_wasm.__file__).parent
missing = {}
for path in sorted(root.rglob("*.py")):
    name = ".".join(("xla_wasm", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    if name == "xla_wasm.__main__":
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing[name] = error.name.partition(".")[0]
import json
pathlib.Path("/data/missing.json").write_text(json.dumps(missing))
"""


NUMPY_HOST = {
    "arrayfiles",
    "arrays",
    "binding",
    "device",
    "devices",
    "dynamic",
    "engine",
    "executor",
    "fresh",
    "instance",
    "instance_pool",
    "layouts",
    "mpi",
    "ndarrays",
    "nonfinite",
    "npy",
    "replicas",
    "shards",
    "thread_pool",
    "unpacking",
    "views",
}
"""The modules of the host that need numpy or wasmtime."""
COMPILE_PATH = {
    "hlo",
    "passes",
    "writing",
    "plan",
    "lowering",
    "loop",
    "wasm",
    "link",
    "kernels",
    "assemble",
    "compiler",
}


def test_every_module_of_the_compile_path_imports(folder: Path, tmp_path: Path) -> None:
    in_node(folder, IMPORTS, tmp_path)
    missing = json.loads((tmp_path / "missing.json").read_text())
    assert set(missing.values()) <= set(FOREIGN), missing
    for name in missing:
        where = name.split(".")[1]
        parts = set(name.split("."))
        assert where not in COMPILE_PATH, name
        assert where != "ops" or not parts & {"record", "lower", "expand", "table"}, name
        assert name != "xla_wasm.site.explain"
        assert where != "host" or parts & NUMPY_HOST, name


COMPILE = """
import hashlib, json, pathlib, sys
import xla_wasm
assert "numpy" not in sys.modules
data = pathlib.Path("/data")
for job in json.loads((data / "jobs.json").read_text()):
    module = xla_wasm.HloModule.from_proto((data / f"{job['name']}.pb").read_bytes())
    artifact = xla_wasm.compile(module, xla_wasm.Options(target=job["target"]))
    assert hashlib.sha256(artifact.wasm + artifact.weights).hexdigest() == job["sha256"], job["name"]
    # What init does with constants is done by the engine that Pyodide runs in.
    command = xla_wasm.compile(module, xla_wasm.Options(target=job["target"], kind="command"))
    assert hashlib.sha256(command.wasm).hexdigest() == job["command"], job["name"]
    exe = xla_wasm.load(artifact)
    assert type(exe).__module__ == "xla_wasm.host.pyodide"
    formats = {"f32": "f", "s32": "i", "u32": "I", "pred": "?", "f64": "d", "s64": "q"}
    inputs = [p for p in exe.parameters if p.kind == "input"]
    files = [(data / f"{job['name']}.{i}").read_bytes() for i in range(len(inputs))]
    arguments = [memoryview(b).cast(formats[p.element_type]) for p, b in zip(inputs, files)]
    results = exe.run(*arguments)
    for i, result in enumerate(results):
        assert result.tobytes() == (data / f"{job['name']}.out{i}").read_bytes(), (job["name"], i)
    assert len(exe.profile(*arguments)) > 0
"""


def test_programs_compile_to_the_same_bytes_and_run_to_the_same_bits(folder: Path, tmp_path: Path) -> None:
    """Without numpy, in the engine around Pyodide: the artifacts of CPython, and with simd128 the results of
    wasmtime."""
    jobs = []
    for name in CHOSEN:
        program = PROGRAMS[name]()
        with jax.enable_x64(program.x64):
            module = xla_wasm.jax.lower(program.fn, *program.args)
        arguments = [np.asarray(leaf) for leaf in jax.tree.leaves(program.args)]
        artifact = xla_wasm.compile(module)
        (tmp_path / f"{name}.pb").write_bytes(module.to_proto())
        for i, array in enumerate(arguments):
            (tmp_path / f"{name}.{i}").write_bytes(np.ascontiguousarray(array).tobytes())
        for i, array in enumerate(xla_wasm.load(artifact).run(*arguments)):
            (tmp_path / f"{name}.out{i}").write_bytes(array.tobytes())
        command = xla_wasm.compile(module, Options(kind="command"))
        hashes = {
            "sha256": hashlib.sha256(artifact.wasm + artifact.weights).hexdigest(),
            "command": hashlib.sha256(command.wasm).hexdigest(),
        }
        jobs.append({"name": name, "target": "simd128", **hashes})
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    in_node(folder, COMPILE, tmp_path)


def test_the_host_without_numpy(folder: Path, cases: Path) -> None:
    in_node(folder, CHECKS.read_text() + "\ncheck_all(Path('/data'), numpy=False)\n" + TYPED_ARRAYS, cases)


TYPED_ARRAYS = """
import js
exe = host.load("/data/toy.wasm")
exe.set("w", js.Float32Array.new(6).fill(1))
x = js.Float32Array.new(6)
x.assign(floats(1, -3, 3, 0.5, 0, 9))
assert flat(exe.run(x, js.BigInt64Array.new(1))[0]) == expected(1)
wide = js.Float64Array.new(6)
wide.assign(memoryview(struct.pack("6d", 1, -3, 3, 0.5, 0, 9)).cast("d"))
assert flat(exe.run(wide, 0)[0]) == flat(exe.run(x, 0)[0])
refused(xla_wasm.ArgumentError, "argument 0 ('x') must be", exe.run, js.Int32Array.new(6), 1)
"""


def test_the_host_with_numpy(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wheel of numpy for Pyodide can be had offline, so the host runs under CPython here, with wasmtime in place of
    the engine."""
    for name, module in fake_js.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(host_checks, "host", host_checks.load_host())
    host_checks.check_all(cases, numpy=True)


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


LOAD = """
  const { loadPyodide } = await import(site + '/pyodide.mjs');
  const python = await loadPyodide({ indexURL: site + '/', lockFileURL: site + '/pyodide-lock.json' });
  await python.loadPackage('xla-wasm', { messageCallback: () => {} });
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  for (const [name, text] of Object.entries(files)) python.globals.set(name, bytes(text));
  const answers = [];
  for (const [call, code] of scripts) {
    try {
      answers.push(await python[call](code));
    } catch (error) {
      answers.push(String(error.message).trim().split('\\n').pop());
    }
  }
  return answers;
"""
DIGITS_SCRIPT = """
import hashlib, json, xla_wasm
artifact = xla_wasm.compile(xla_wasm.HloModule.from_proto(model.to_bytes()))
(logits,) = xla_wasm.load(artifact).run(image.to_memoryview().cast("f"))
json.dumps([hashlib.sha256(artifact.wasm).hexdigest(), logits.tolist()])
"""
LARGE_SCRIPT = """
import json, xla_wasm
x = [1.0] * 8
json.dumps(xla_wasm.load(large.to_bytes()).run(x)[0].tolist())
"""


def large_artifact() -> xla_wasm.Artifact:
    """More than 8 MiB in one module: Chromium does not compile that on a page's main thread while the page waits."""
    numbers = np.arange(9 * 2**18, dtype=np.float32)
    return xla_wasm.compile(
        xla_wasm.jax.lower(lambda x: x + jnp.asarray(numbers).reshape(8, -1).max(1), np.ones(8, np.float32))
    )


def run_in_browser(
    page: Page, site: str, worker: bool, files: dict[str, bytes], scripts: list[tuple[str, str]]
) -> list[str]:
    encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    if not worker:
        return page.evaluate(
            "([site, files, scripts]) => (async (site, files, scripts) => {" + LOAD + "})(site, files, scripts)",
            [site, encoded, scripts],
        )
    code = f"onmessage = async ({{data: [site, files, scripts]}}) => postMessage(await (async () => {{{LOAD}}})());"
    page.route(
        "**/worker.js",
        lambda route: route.fulfill(
            body=code, content_type="text/javascript", headers={"Cross-Origin-Embedder-Policy": "require-corp"}
        ),
    )
    return page.evaluate(
        """([site, files, scripts]) => new Promise((done, fail) => {
          const worker = new Worker('/worker.js', { type: 'module' });
          worker.onmessage = ({ data }) => done(data);
          worker.onerror = (event) => fail(new Error(event.message));
          worker.postMessage([site, files, scripts]);
        })""",
        [site, encoded, scripts],
    )


@pytest.mark.parametrize("worker", [False, True])
def test_in_chromium(chromium: Browser, site: str, worker: bool) -> None:
    """CPython's bytes and JAX's logits; and a module beyond the size that a main thread may compile at once."""
    model = (DIGITS / "digits.hlo.pb").read_bytes()
    image = (np.load(DIGITS / "images.npy")[0].astype(np.float32) / 16).tobytes()
    large = large_artifact()
    assert len(large.wasm) > 8 << 20
    page = chromium.new_context().new_page()
    strangers: list[str] = []
    page.on("request", lambda r: r.url.startswith(site) or strangers.append(r.url))
    page.route("**/blank.html", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.goto(f"{site}/blank.html")
    scripts = [("runPython", DIGITS_SCRIPT), ("runPython", LARGE_SCRIPT), ("runPythonAsync", LARGE_SCRIPT)]
    digits, at_once, waiting = run_in_browser(
        page, site, worker, {"model": model, "image": image, "large": large.wasm}, scripts
    )
    sha256, logits = json.loads(digits)
    assert sha256 == hashlib.sha256(xla_wasm.compile(xla_wasm.HloModule.from_proto(model)).wasm).hexdigest()
    np.testing.assert_allclose(logits, np.load(DIGITS / "logits.npy")[:1], rtol=0, atol=1e-4)
    expected = xla_wasm.load(large).run(np.ones(8, np.float32))[0].tolist()
    assert json.loads(waiting) == expected
    if worker:
        assert json.loads(at_once) == expected
    else:
        assert "xla_wasm.errors.LimitError" in at_once and "call from runPythonAsync" in at_once
    assert not strangers
    page.context.close()
