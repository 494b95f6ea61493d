"""The linker: closures, relocations of every kind, the build of the runtime table."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from tests.support.paths import ROOT
from xla_wasm.assemble.driver import running
from xla_wasm.assemble.front import FRONTS
from xla_wasm.link import Linker, runtime_functions
from xla_wasm.link.link import Table, _runtime, read_table
from xla_wasm.link.objfile import Object, index_objects, read_object, write_table
from xla_wasm.wasm import Func, Module
from xla_wasm.wasm.binary import read_module
from xla_wasm.wasm.disasm import disassemble
from xla_wasm.wasm.validate import validate


class Arena:
    """The allocator that a compiler would supply."""

    def __init__(self) -> None:
        self.top = 1024
        self.given: list[tuple[int, int]] = []

    def __call__(self, size: int, align: int, content: bool) -> int:
        address = (self.top + align - 1) & -align
        self.top = address + size
        self.given.append((address, size))
        return address


def linked(*symbols: str, table: Table | None = None) -> tuple[Module, Arena]:
    module, arena = Module(), Arena()
    linker = Linker(module, arena, table=table)
    for symbol in symbols:
        linker.need(symbol)
        module.export_func(symbol, symbol)
    module.memory(arena.top // 65536 + 1)
    module.export_memory("memory")
    return module, arena


def instance(module: Module) -> tuple[wasmtime.Store, Any]:
    wasm = module.encode()
    validate(wasm)
    store = wasmtime.Store()
    compiled = wasmtime.Module(store.engine, wasm)
    assert not compiled.imports
    return store, wasmtime.Instance(store, compiled, []).exports(store)


def chosen_for_fronts() -> dict[str, str]:
    """For what the fronts leave to the model: what does it, and what does nothing, each for every second."""
    return {name: symbol for front in FRONTS.values() for name, symbol in front.chosen([*front.optional][::2]).items()}


def test_all_of_the_runtime_links() -> None:
    module, arena = Module(), Arena()
    functions = running(direct=True, threads=False, waits=True, inits=True, brought=True)
    linker = Linker(module, arena, chosen={**functions, **chosen_for_fronts()})
    linker.import_for(*runtime_functions())
    for name, params, results in (
        ("description", (), ("i32",)),
        ("arena", (), ("i32",)),
        ("dispatch", ("i32",) * 4, ()),
        ("fork", ("i32",), ()),
        ("bring", ("i32",), ()),
    ):
        func = Func(name, params, results)
        func.op("unreachable")
        module.add(func)
    module.slot("xw_step")  # the table that it calls kernels through
    for symbol in runtime_functions():
        linker.need(symbol)
        module.export_func(symbol, symbol)
    module.memory(arena.top // 65536 + 1)
    wasm = module.encode(names=True)
    validate(wasm)
    wasmtime.Module.validate(wasmtime.Engine(), wasm)
    assert len(wasm) < 600_000
    spans = sorted(arena.given)
    assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:]))
    assert disassemble(wasm) == disassemble(bytes(wasmtime.wat2wasm(disassemble(wasm))))


def test_only_what_is_needed() -> None:
    module, arena = linked("xw_fmod_f64")
    assert len(module.functions) == 1 and not arena.given
    assert not read_module(module.encode()).globals
    assert len(module.encode()) < 500
    module, arena = linked("xw_tan_f64")
    assert {f.name for f in module.functions} == {"xw_tan_f64", "trig:reduce_huge"}
    assert len(read_module(module.encode()).globals) == 1  # the stack pointer


def test_need_is_idempotent() -> None:
    module, arena = Module(), Arena()
    linker = Linker(module, arena)
    linker.need("xw_sin_f64")
    count, top = module.function_count(), arena.top
    linker.need("xw_sin_f64")
    linker.need("xw_cos_f64")
    assert module.function_count() == count + 1  # they share the reduction
    assert arena.top == top


def test_missing_symbols_of_a_module() -> None:
    module, arena = Module(), Arena()
    func = Func("f", ("f64",), ("f64",))
    func.op("local.get", 0)
    func.call("xw_exp_f64")
    module.add(func)
    Linker(module, arena).need_missing()
    module.export_func("f", "f")
    store, exports = instance(module)
    assert exports["f"](store, 1.0) == pytest.approx(2.718281828459045, rel=2e-16)


def test_unknown_symbol() -> None:
    with pytest.raises(ValueError, match="no function xw_nothing"):
        Linker(Module(), Arena()).need("xw_nothing")


def test_table_round_trip() -> None:
    table = _runtime()
    assert read_table(write_table(table)) == table
    assert len(write_table(table)) < 200_000


def compiled(folder: Path, **sources: str) -> list[Object]:
    """The objects of C sources, as the build makes them."""
    sys.path.insert(0, str(ROOT))
    from hatch_build import compile_runtime

    paths = []
    for name, text in sources.items():
        paths.append(folder / f"{name}.c")
        paths[-1].write_text(text)
    return [read_object(path.stem, path.read_bytes()) for path in compile_runtime(paths, folder)]


TABLES = """
typedef int (*binary)(int, int);
static int add(int a, int b) { return a + b; }
static int mul(int a, int b) { return a * b; }
int shared_sub(int a, int b);
static const binary operations[] = {add, mul, shared_sub};
int xw_apply(int which, int a, int b) { return operations[which](a, b); }
static int called;
static int *counter = &called;
static const char *const words[] = {"zero", "one", "two"};
int xw_count(void) { return ++*counter; }
int xw_letter(int word, int at) { return words[word][at]; }
int xw_pick(int which, int a, int b) { volatile binary f = which ? add : mul; return f(a, b); }
int xw_fill(int n) {
  int cells[200];
  volatile int *v = cells;
  for (int i = 0; i < n; i++) v[i] = i;
  int sum = 0;
  for (int i = 0; i < n; i++) sum += v[i];
  return sum;
}
__attribute__((noinline)) int xw_depth(int n) { volatile int here = n; return n ? xw_depth(n - 1) + here : 0; }
int xw_unused(void) { return 12345; }
"""
OTHER = """
static int called = 100;
__attribute__((noinline)) static int add(int a, int b) { called++; return a - b + called * 0; }
int shared_sub(int a, int b) { return add(a, b); }
int xw_other(void) { return called; }
"""


def test_relocations_run(tmp_path: Path) -> None:
    """Function pointers in code and data, data that points at data, zeroed data, static names that collide, recursion,
    stack."""
    table = index_objects(compiled(tmp_path, tables=TABLES, other=OTHER))
    assert read_table(write_table(table)) == table
    names = ["xw_apply", "xw_count", "xw_letter", "xw_pick", "xw_fill", "xw_depth", "xw_other"]
    module, _ = linked(*names, table=table)
    assert not module.has("xw_unused")
    store, exports = instance(module)

    def call(name: str, *arguments: int) -> int:
        result: int = exports[name](store, *arguments)
        return result

    assert [call("xw_apply", i, 7, 5) for i in range(3)] == [12, 35, 2]
    assert [call("xw_count") for _ in range(3)] == [1, 2, 3]
    assert chr(call("xw_letter", 2, 1)) == "w"
    assert [call("xw_pick", i, 4, 5) for i in (0, 1)] == [20, 9]
    assert call("xw_fill", 200) == 19900
    assert call("xw_depth", 50) == 1275
    assert call("xw_other") == 101


IMPORTING = """
#define FROM(module, name) __attribute__((import_module(module), import_name(name)))
FROM("outside", "first") int first(int);
FROM("outside", "second") int second(int);
FROM("xla_wasm", "own") int own(int);
FROM("xla_wasm", "either") int either(int);
int xw_root(int x) { return first(own(x)) + either(x); }
int xw_other_root(int x) { return second(x); }
int xw_this(int x) { return x + 1; }
int xw_that(int x) { return x + 2; }
"""


def test_imports_and_what_the_program_chooses(tmp_path: Path) -> None:
    table = index_objects(compiled(tmp_path, importing=IMPORTING))
    assert read_table(write_table(table)) == table
    for choice, more in (("xw_this", 1), ("xw_that", 2)):
        module, arena = Module(), Arena()
        linker = Linker(module, arena, table=table, chosen={"either": choice})
        linker.import_for("xw_root")
        func = Func("own", ("i32",), ("i32",))
        func.op("local.get", 0)
        func.op("i32.const", 3)
        func.op("i32.mul")
        module.add(func)
        linker.need("xw_root")
        module.export_func("root", "xw_root")
        assert not module.has("xw_that" if choice == "xw_this" else "xw_this")
        store = wasmtime.Store()
        made = wasmtime.Module(store.engine, module.encode())
        assert [(item.module, item.name) for item in made.imports] == [("outside", "first")]
        first = wasmtime.Func(
            store, wasmtime.FuncType([wasmtime.ValType.i32()], [wasmtime.ValType.i32()]), lambda x: x + 1000
        )
        root: Any = wasmtime.Instance(store, made, [first]).exports(store)["root"]
        assert root(store, 5) == 1015 + 5 + more


def test_the_address_of_an_import_is_refused(tmp_path: Path) -> None:
    text = IMPORTING + "int (*xw_pointer(void))(int) { return first; }"
    with pytest.raises(ValueError, match="importing: the address of first, which is imported, is not supported"):
        index_objects(compiled(tmp_path, importing=text))


def test_refused_objects(tmp_path: Path) -> None:
    (tables, other) = compiled(tmp_path, tables=TABLES, other=OTHER)
    with pytest.raises(ValueError, match="tables needs shared_sub, which no source defines"):
        index_objects([tables])
    with pytest.raises(ValueError, match="shared_sub is defined in other and again"):
        index_objects([tables, other, replace(other, name="again")])
    with pytest.raises(ValueError, match="no function called xw_"):
        index_objects(compiled(tmp_path, empty="int nothing;"))
    for kind, name in ((11, "MEMORY_ADDR_REL_SLEB"), (77, "77")):
        relocations = {"CODE": [(kind, *rest) for _, *rest in tables.relocations["CODE"]]}
        with pytest.raises(ValueError, match=f"tables: relocation {name} is not supported"):
            index_objects([replace(tables, relocations=relocations), other])  # type: ignore[arg-type]


def test_build_is_reproducible(tmp_path: Path) -> None:
    """The same bytes from another folder, and the same as the table in place."""
    sys.path.insert(0, str(ROOT))
    from hatch_build import compile_runtime

    built = []
    for i in range(2):
        folder = tmp_path / f"copy{i}"
        folder.mkdir()
        shutil.copytree(ROOT / "runtime_c", folder / "runtime_c")
        objects = compile_runtime(sorted((folder / "runtime_c").glob("**/*.c")), folder)
        built.append(write_table(index_objects([read_object(path.stem, path.read_bytes()) for path in objects])))
    assert built[0] == built[1]
    assert read_table(built[0]) == _runtime(), "runtime.bin is stale: run `python hatch_build.py`"


def test_only_what_is_linked_is_read() -> None:
    """A process that links one function parses what that needs, of hundreds; what it links is the same as of a table
    read whole."""
    packed = (ROOT / "xla_wasm" / "link" / "runtime.bin").read_bytes()
    linked = []
    for whole in (False, True):
        table = read_table(packed)
        if whole:
            table = Table(table.types, table.outside, tuple(table.functions), tuple(table.data), table.names)
        module = Module()
        Linker(module, lambda size, align, content: 4096, table=table).need("xw_cbrt_f64")
        linked.append([function.name for function in module.functions])
        if not whole:
            read = [part for part in table.functions._parts if part is not None]  # type: ignore[attr-defined]
            assert len(read) == len(module.functions) < 20 < len(table.functions)
    assert linked[0] == linked[1]
    with pytest.raises(ValueError, match="built for another version of xla_wasm"):
        read_table(b"\x02" + packed[1:])


def test_build_without_sources_fails(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from hatch_build import build_runtime

    with pytest.raises(RuntimeError, match="no C sources"):
        build_runtime(tmp_path)
