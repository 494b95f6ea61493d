"""The law of imports: which room of the package may know which, and no circle among its modules.

Imports inside functions and for type checkers count like all others. An arrow that is missing here is a decision: first
look for the way around it (hand in what the lower room needs, or move what both need down).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from typing import get_args

from tests.support.changed import role_of
from tests.support.import_graph import ROOT, circles, graph
from xla_wasm.ops.table import FAMILIES, Role

ROLES = {
    "record": "records",
    **dict.fromkeys(("expand", "simplify", "canonical", "pad"), "writing"),
    "stablehlo": "mapping",
    "lower": "lowering",
    "reference": "meaning",
    "samples": "samples",
}
"""First word of the name of a family's file, up to `_` -> its room. A file whose name begins with none of these is
shared by several."""

ROOMS = {
    "records": "ops.table ops.reading ops.exactness",
    "mapping": "ops.stablehlo",
    "meaning": "reference ops.dtypes",
    "samples": "ops.sample ops.docs",
    "command": "__main__",
    "devices": "host.mpi host.launch",
    "site": "javascript",
    "frontend": "safetensors",
}
"""Rooms that are neither of a role nor a folder or a file of their own name at the top."""

ARROWS = {
    # the language, and what a module is made for
    "lines": "",
    "hlo": "lines",
    "target": "",
    "options": "target",
    "files": "",
    "showing": "",
    "hostio": "",
    "mlir": "hlo",
    # code
    "wasm": "lines",
    "link": "wasm",
    "artifact": "files showing wasm",
    "loop": "hlo target wasm",
    "kernels": "hlo target loop",
    # operations: one room for each reader
    "records": "hlo",
    "shared": "hlo",
    "writing": "hlo records shared",
    "mapping": "hlo mlir records shared writing",
    "lowering": "hlo records shared loop",
    "meaning": "hlo hostio records shared",
    "packages": "",
    "stablehlo": "hlo mlir records writing mapping",
    # stages
    "passes": "hlo records shared writing",
    "plan": "lines hlo records shared target loop kernels lowering",
    "assemble": "hlo options target shared lowering plan loop wasm link artifact",
    "compiler": "hlo options target shared writing lowering passes plan loop wasm link artifact assemble",
    # what runs a module, makes one by hand, or judges one
    "host": "hlo hostio target artifact showing",
    "devices": "hostio host",
    "server": "hlo artifact host",
    "builder": "hlo",
    "samples": "hlo records shared meaning builder",
    "check": "files hlo options target showing records shared meaning passes compiler host command",
    "command": "files hlo options target showing records meaning wasm artifact assemble compiler host devices check "
    "site server frontend",
    "site": "files lines hlo options target records meaning loop wasm artifact passes plan compiler host builder check "
    "command frontend",
    "frontend": "files hlo shared host",
    "jax": "files hlo target options shared artifact compiler host",
}
"""Room -> the rooms that it may import. All may import `dataclass` and `errors`."""

EXCEPTIONS = {
    ("assemble.assemble", ""): "the version, which the front of the package has",
    ("command.cli", ""): "the same",
    ("jax.cache", ""): "the same",
    ("server.openapi", ""): "the same",
    ("compiler", "host.prepared"): "the memory after `init` is what an engine makes of it",
    ("assemble.initial", "host.structures"): "the leaves of a structure have the names by which hosts take them",
    ("host.arrayfiles", "safetensors"): "weights are set from the files that bind them, too",
    ("ops.custom.expand", "lowering.table"): "the targets that have a routine stay custom calls",
    (
        "ops.indexing.expand",
        "lowering.apply",
    ): "whether a computation can be part of a loop, or has to become other operations",
    ("ops.reduce.expand", "lowering.apply"): "the same",
    ("ops.window.expand", "lowering.apply"): "the same",
    (
        "ops.custom.reference",
        "ops.custom.expand_registry",
    ): "what a user registers is written once, and so evaluated as it is written",
    ("ops.custom.reference", "writing.writer"): "the same",
    ("ops.dot.reference", "ops.dot.expand"): "the judge should not need this",
    ("ops.dynamic.reference", "ops.dynamic.pad_reshape"): "the judge should not need this",
    ("ops.random.reference", "ops.random.expand"): "the judge should not need this",
    ("ops.window.reference", "ops.window.expand"): "the judge should not need this",
    ("ops.movement.reference", "host.layouts"): "the bytes of a layout in NumPy, which hosts have",
    ("ops.dtypes", "host.arrays"): "the evaluator converts arguments as hosts do",
    ("ops.custom.reference", "host.arrays"): "the same",
    ("reference", "passes.manual"): "a program on whole arrays is evaluated as that of each device",
}
"""(module, what it imports beside the law) -> why."""

CIRCLES = [
    # A module of HLO reads and prints itself, as users call it; the others take its instructions.
    [
        *("hlo.infer", "hlo.ir", "hlo.kinds.devices", "hlo.kinds.dimensions", "hlo.kinds.kind", "hlo.kinds.options"),
        *(
            "hlo.kinds.plain",
            "hlo.kinds.table",
            "hlo.op",
            "hlo.proto.container",
            "hlo.proto.module",
            "hlo.text.asynchronous",
        ),
        *("hlo.text.attributes", "hlo.text.computations", "hlo.text.omitted", "hlo.text.parser", "hlo.text.printer"),
    ],
    ["loop.arithmetic", "loop.small_floats"],
]
"""The circles that there are."""

LATE = ("", "ops.table")
"""Modules that import by name: the front of the package, and the table of families, whose callers the law sees."""


def room(module: str) -> str:
    """The room that a module lies in."""
    for name, members in ROOMS.items():
        if module in members.split():
            return name
    parts = module.split(".")
    if parts[0] != "ops":
        return parts[0]
    return ROLES.get(parts[2].partition("_")[0], "shared") if len(parts) == 3 else "packages"


def test_rooms_import_only_what_they_may_know() -> None:
    known = {name: {name, "dataclass", "errors", *rooms.split()} for name, rooms in ARROWS.items()}
    wrong = [
        f"{module} imports {other}: '{room(module)}' may know {', '.join(sorted(known[room(module)]))}, and not "
        f"'{room(other)}'"
        for module, imported in graph().items()
        for other in imported
        if module
        and room(module) in known
        and room(other) not in known[room(module)]
        and (module, other) not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_has_a_room_and_every_exception_a_need() -> None:
    modules = graph()
    homeless = [m for m in modules if m and room(m) not in (*ARROWS, "dataclass", "errors")]
    packages = {"ops", *(f"ops.{name}" for name in FAMILIES)}
    homeless += [m for m in modules if room(m) == "packages" and m not in packages]
    assert not homeless, f"a new room, or a new file in one: {homeless}"
    assert not [arrow for arrow in EXCEPTIONS if arrow[1] not in modules[arrow[0]]], (
        "an exception that nothing needs any more"
    )
    assert not [name for name, rooms in ARROWS.items() if not {*rooms.split()} <= {*ARROWS}]


def test_no_circle_is_new() -> None:
    arrows = {module: [other for other in imported if other] for module, imported in graph().items() if module}
    assert circles(arrows) == CIRCLES


def test_the_stages_are_in_order() -> None:
    """No two rooms know each other, by however many others, but for the command and what stands around it."""
    around = ("check", "command", "site", "devices", "frontend", "jax")
    rooms = {
        name: [other for other in reached.split() if other not in around]
        for name, reached in ARROWS.items()
        if name not in around
    }
    assert not circles(rooms)


def test_imports_by_name_are_listed() -> None:
    for module in graph():
        path = ROOT.joinpath(*module.split(".")) if module else ROOT
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
        by_name = re.search(r"\b(import_module|__import__)\b", source)
        by_role = "" in map(role_of, ast.walk(ast.parse(source)))
        assert module in LATE or not (by_name or by_role), f"{module} imports what the law cannot see"


def test_records_of_families_list_all_their_files() -> None:
    for name, family in FAMILIES.items():
        files = {*family.files, "record", "reference", "samples", *(["lower"] if family.late else [])}
        assert files == {role for role in get_args(Role) if (ROOT / "ops" / name / f"{role}.py").is_file()}, name
        lower = family.load_file("lower") if family.late else object()
        assert not hasattr(lower, "ELEMENTAL") and hasattr(lower, "ROUTINES") == family.routines
        assert family.late == tuple(getattr(lower, "KERNELS", ())), name
    assert {*FAMILIES} == {path.parent.name for path in (ROOT / "ops").glob("*/__init__.py")}


def test_a_small_network_is_compiled_without_the_families_that_it_does_not_have() -> None:
    model = ROOT.parent / "examples" / "digits" / "digits.hlo.pb"
    work = (
        f"import sys, xla_wasm; xla_wasm.compile(xla_wasm.HloModule.from_proto(open({str(model)!r}, "
        f"'rb').read())); print(*sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XLA_WASM_VERIFY"}
    loaded = subprocess.run(
        [sys.executable, "-c", work], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    late = [f"xla_wasm.ops.{name}.lower" for name, family in FAMILIES.items() if family.late]
    assert not {*late, "dataclasses", "inspect", "pathlib", "numpy", "xla_wasm.builder", "xla_wasm.hlo.text.parser"} & {
        *loaded
    }


def test_what_tests_share_knows_no_test() -> None:
    """Files of tests may take from each other; what is shared, and what runs by itself, takes from no test."""
    tests = ROOT.parent / "tests"
    wrong = [
        f"{path.relative_to(tests)}: {line.strip()}"
        for path in sorted(tests.rglob("*.py"))
        if not path.name.startswith("test_")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from|import) .*\btest_\w+", line)
    ]
    assert not wrong, "\n".join(wrong)
    homeless = [path.name for path in tests.glob("*.py") if path.name not in ("__init__.py", "conftest.py")]
    assert not homeless, "test files lie in rooms, what they share in support/"
    assert all((path.parent / "__init__.py").is_file() for path in tests.rglob("*.py")), "names are tests.ROOM.MODULE"
