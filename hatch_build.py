"""Builds the C runtime into `xla_wasm/link/runtime.bin`: as hatchling's build hook, or in place with `python
hatch_build.py`. The hook also writes the types of what is made as a module is imported."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
ZIG_VERSION = "0.15.2"
FLAGS = (
    "-target wasm32-freestanding -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -ffunction-sections "
    "-fdata-sections "
    "-ffp-contract=off -std=c11 -g0 -Wall -Wextra -Werror -Wframe-larger-than=4096 -c"
).split()
OPTIMISE = {
    "runtime_c": "-O2".split(),
    # What reads and writes files is to be small. Zig makes -Os of -Oz, but leaves what goes to clang itself as it is.
    "front": (
        "-Oz -Xclang -Oz -fno-vectorize -fno-slp-vectorize -fno-builtin -fno-strict-aliasing -mllvm -disable-lsr "
        # Neither copies of small functions nor of what would have been computed before a loop or a branch.
        "-mllvm -inline-threshold=-50 -mllvm -enable-pre=0 -mllvm -enable-load-pre=0 -mllvm -disable-machine-licm "
        # What two branches begin with stands once before them, and stays there.
        "-mllvm -enable-gvn-hoist -mllvm -instcombine-code-sinking=0"
    ).split(),
}
"""Folder of sources -> flags."""


def compile_runtime(sources: list[Path], folder: Path) -> list[Path]:
    """Compile each source to a relocatable object in `folder`, with the clang of the ziglang package."""
    environment = dict(os.environ)
    if not ({"HOME", "ZIG_GLOBAL_CACHE_DIR", "LOCALAPPDATA"} & environment.keys()):
        environment["ZIG_GLOBAL_CACHE_DIR"] = str(folder / "cache")
    version = subprocess.run(
        [sys.executable, "-m", "ziglang", "version"], env=environment, capture_output=True, text=True
    )
    if version.stdout.strip() != ZIG_VERSION:
        found = version.stdout.strip() or version.stderr.strip()
        raise RuntimeError(f"the C runtime is built with ziglang=={ZIG_VERSION}; found: {found}")
    objects = []
    for source in sources:
        target = folder / f"{source.stem}.o"
        # A relative path, so that no object depends on where the tree lies.
        flags = FLAGS + OPTIMISE.get(source.parent.name, OPTIMISE["runtime_c"])
        command = [sys.executable, "-m", "ziglang", "cc", *flags, source.name, "-o", str(target)]
        result = subprocess.run(command, cwd=source.parent, env=environment, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"compiling {source.name} failed:\n{result.stderr}")
        objects.append(target)
    return objects


@contextmanager
def importable(root: Path) -> Iterator[None]:
    """Parts of the package work here, which may not be installed yet."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


def build_runtime(root: Path = ROOT) -> Path:
    """Compile `runtime_c/**/*.c` and index the objects; the path of the table."""
    sources = sorted((root / "runtime_c").glob("**/*.c"))
    if not sources:
        raise RuntimeError(f"no C sources in {root / 'runtime_c'}")
    with importable(root):
        from xla_wasm.link.objfile import index_objects, read_object, write_table
    target = root / "xla_wasm" / "link" / "runtime.bin"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        objects = compile_runtime(sources, Path(folder))
        table = index_objects([read_object(path.stem, path.read_bytes()) for path in objects])
    target.write_bytes(write_table(table))
    return target


STUB = """from collections.abc import Sequence
from typing import Any

from ..hlo.attrs import *
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Layout, Shape
from .computation import Builder
from .derived import Elements, Groups, Ints, Padding, Precision, Value, Values

class XlaBuilder(Builder):
"""


def builder_stub(root: Path = ROOT) -> str:
    """The stub of `xla_wasm/builder/xla.py`, for editors and type checkers: a table makes most of its methods."""
    with importable(root):
        from xla_wasm.builder import XlaBuilder
    methods = [(name, method) for name, method in vars(XlaBuilder).items() if name[0].isupper()]
    return STUB + "".join(
        f"    def {name}{inspect.signature(method)}:\n        {inspect.getdoc(method)!r}\n" for name, method in methods
    )


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # only needed to run as a hook
    pass
else:

    class RuntimeBuildHook(BuildHookInterface[Any]):
        """Builds the table before the wheel is assembled and ships it."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called by hatchling before each build; an sdist carries the sources only."""
            if self.target_name == "sdist":
                return
            target = build_runtime(Path(self.root))
            build_data["artifacts"].append(target.relative_to(self.root).as_posix())
            if version != "editable":  # there the module itself is to be seen
                self.folder = tempfile.TemporaryDirectory()
                stub = Path(self.folder.name) / "xla.pyi"
                stub.write_text(builder_stub(Path(self.root)), encoding="utf-8")
                build_data["force_include"][str(stub)] = "xla_wasm/builder/xla.pyi"


if __name__ == "__main__":
    path = build_runtime()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
