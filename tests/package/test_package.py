"""The package as a whole: what an import pulls in, reproducible output, the wheel, and that the README tells the
truth."""

from __future__ import annotations

import hashlib
import re
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import xla_wasm
from hatch_build import builder_stub
from tests.support.once import built_wheel
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.lowering.table import ELEMENTAL, ELEMENTWISE, KERNELS
from xla_wasm.ops.dynamic.record import SIZES
from xla_wasm.ops.hostio.expand import HOST
from xla_wasm.ops.table import OPS
from xla_wasm.passes.expand import EXPAND, INLINE

MODEL = ROOT / "examples" / "digits" / "digits.hlo.pb"
COMPILE = (
    f"import xla_wasm; artifact = xla_wasm.compile(xla_wasm.HloModule.from_proto(open({str(MODEL)!r}, 'rb').read()));"
)


@pytest.mark.parametrize("work", ["import xla_wasm;", COMPILE])
def test_importing_and_compiling_need_only_the_standard_library(work: str) -> None:
    # -S: without site-packages an import of anything else fails outright.
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); {work} print(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    loaded = output([sys.executable, "-S", "-c", script]).split()
    foreign = {m for m in loaded if m not in sys.stdlib_module_names} - {"xla_wasm", "__main__"}
    assert not foreign


def test_public_names() -> None:
    assert set(xla_wasm.__all__) <= set(dir(xla_wasm))
    for name in xla_wasm.__all__:
        assert getattr(xla_wasm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        xla_wasm.nothing  # noqa: B018


def test_every_opcode_can_be_compiled() -> None:
    """Whatever has a record has a kernel, or a pass that leaves none of it."""
    around = (
        "while",
        "conditional",
        "after-all",
        "tuple",
        "get-tuple-element",
        "parameter",
        "constant",
        "replica-id",
        "partition-id",
    )
    known = {*ELEMENTWISE, *ELEMENTAL, *KERNELS, *EXPAND, *HOST, *INLINE, *SIZES, *around}
    assert not {*OPS} - known


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_processes_compile_to_the_same_bytes(target: str) -> None:
    work = COMPILE.replace("));", f"), xla_wasm.Options(target={target!r}));")
    script = work + "import hashlib; print(hashlib.sha256(artifact.wasm + artifact.weights).hexdigest())"
    hashes = {output([sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}) for seed in ("0", "1", "12345")}
    assert len(hashes) == 1
    assert len(hashes.pop().strip()) == hashlib.sha256().digest_size * 2


def test_wheel_works_in_an_empty_environment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    wheel = built_wheel(tmp_path_factory)
    assert wheel.name.endswith("-py3-none-any.whl")
    with ZipFile(wheel) as files:
        assert files.read("xla_wasm/builder/xla.pyi").decode() == builder_stub()
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    output([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", wheel])
    command = tmp_path / "env" / "bin" / "xla-wasm"
    bare = {"PATH": "/nonexistent", "PYTHONPATH": "", "VIRTUAL_ENV": ""}  # no compiler, and nothing of this checkout
    output([command, "compile", MODEL, "-o", tmp_path / "digits.wasm"], env=bare)
    assert "f32[1,10]" in output([command, "run", tmp_path / "digits.wasm", "--random-inputs"], env=bare)
    found = "all(m.source.is_file() for m in p.MODELS), (p.site() / 'demo' / 'index.html').is_file()"
    script = f"import xla_wasm.site.pages as p; print(p.__file__, {found})"
    where, models, page = output([python, "-P", "-c", script], env=bare).split()
    assert str(tmp_path) in where
    assert (models, page) == ("True", "True")


def test_architecture_names_every_part() -> None:
    """The packages, and the modules at the top."""
    document = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    parts = [path for path in (ROOT / "xla_wasm").iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in parts if not path.name.startswith("__")}
    assert len(names) > 30 and {name for name in names if f"`{name}`" not in document} == set()


def test_readme_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    usage = output([ROOT / "build.sh", "help"])
    commands = set(re.findall(r"\./build\.sh (\w+)", readme))
    assert {"demo", "test"} <= commands
    for command in commands:
        assert re.search(rf"^  {command} ", usage, re.MULTILINE), command
    words = set(re.findall(r"xla-wasm (\w[\w-]*)", readme))
    help_text = output([sys.executable, "-m", "xla_wasm", "--help"])
    for word in words:
        assert word in help_text, word
    for link in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / link).exists(), link


def test_readme_example_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    # One after another: later ones go on from the first.
    output([sys.executable, "-c", "\n".join(blocks)], ROOT, {"XDG_CACHE_HOME": str(tmp_path)})
