"""MLIR text: every form that jaxlib prints gives one tree, and what jaxlib's own reader says of an operation is what
the tree says."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import export
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from tests.support import (
    seeds,
)
from tests.support.mlir_cases import OPS, all_forms, as_data, portable_forms
from tests.support.whole_programs import PROGRAMS
from xla_wasm.errors import ParseError, UnsupportedError, XlaWasmError
from xla_wasm.mlir import tree
from xla_wasm.mlir.text import read
from xla_wasm.mlir.tree import (
    DYNAMIC,
    Alias,
    Complex,
    Dense,
    Elements,
    Location,
    Number,
    Op,
    Opaque,
    Quantized,
    Symbol,
    Tensor,
    TypeOf,
)

F32 = Tensor((), "f32")
SAMPLED = (
    "cnn_forward",
    "transformer_gradient",
    "lstm_gradient",
    "solving",
    "sorts",
    "newton_roots",
    "embedding",
    "fft_gradient",
)


def body(text: str, arguments: str = "%a: tensor<4xf32>") -> list[Op]:
    """The operations of a function that has these lines."""
    (module,) = read(f"func.func @f({arguments}) {{\n{text}\nreturn\n}}")
    return module.regions[0][0].ops[0].regions[0][0].ops[:-1]


def constant(text: str) -> Any:
    return body(f"%0 = stablehlo.constant {text}")[0].attributes["value"]


def printed(module: ir.Module) -> list[str]:
    """The four texts that jaxlib makes of a module; the first two have locations."""
    asm = module.operation.get_asm
    kinds = ((debug, generic) for debug in (True, False) for generic in (False, True))
    return [asm(enable_debug_info=debug, print_generic_op_form=generic) for debug, generic in kinds]


@cache
def lowered(name: str) -> ir.Module:
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        return jax.jit(program.fn).lower(*program.args).compiler_ir("stablehlo")


def check_forms(module: ir.Module) -> None:
    pretty, generic, short, short_generic = [read(text) for text in printed(module)]
    assert as_data(pretty, True) == as_data(generic, True)
    assert as_data(pretty) == as_data(short) == as_data(short_generic)


def test_every_form_is_read() -> None:
    check_forms(all_forms())
    names = {op[0] for op in as_data(read(str(all_forms())))}
    assert {re.match('"(.*?)"', op)[1] for op in OPS} <= names  # type: ignore[index]


@pytest.mark.parametrize("name", sorted(name for name in PROGRAMS if name in SAMPLED or len(name) % 3 == 0))
def test_the_forms_of_programs_give_one_tree(name: str) -> None:
    check_forms(lowered(name))


# --- what jaxlib's reader says
# -----------------------------------------------------------------------------------------


def check_bindings(ours: Op, theirs: Any, values: dict[Any, tree.Value]) -> int:
    """Compares one operation with the one of jaxlib's bindings, and what its regions hold; the number of attributes
    compared."""
    assert ours.name == theirs.name
    assert [id(o) for o in ours.operands] == [id(values[o]) for o in theirs.operands]
    values.update(zip(theirs.results, ours.results))
    assert len(ours.results) == len(theirs.results)
    count = 0
    for value, result in zip(ours.results, theirs.results):
        check_type(value.type, result.type)
    for name in theirs.attributes:
        name = getattr(name, "name", name)
        if name in ours.attributes:
            try:
                attribute = theirs.attributes[name]
            except TypeError:  # the bindings have no class for some constants
                continue
            count += check_attribute(ours.attributes[name], attribute)
    assert len(ours.regions) == len(theirs.regions)
    for region, their_region in zip(ours.regions, theirs.regions):
        assert len(region) == len(list(their_region))
        for block, their_block in zip(region, their_region):
            for argument, other in zip(block.arguments, their_block.arguments):
                check_type(argument.type, other.type)
            values.update(zip(their_block.arguments, block.arguments))
            operations = list(their_block)
            assert len(operations) == len(block.ops)
            count += sum(check_bindings(op, other.operation, values) for op, other in zip(block.ops, operations))
    return count


def check_type(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, ir.RankedTensorType):
        assert [DYNAMIC if theirs.is_dynamic_dim(i) else theirs.get_dim_size(i) for i in range(theirs.rank)] == [
            *ours.sizes
        ]
        element = f"complex<{ours.element.element}>" if isinstance(ours.element, Complex) else ours.element
        assert element == str(theirs.element_type)
        assert bool(ours.bounds) == (theirs.encoding is not None)


def check_attribute(ours: Any, theirs: Any) -> int:
    if isinstance(theirs, ir.StringAttr):
        assert ours == theirs.value
    elif isinstance(theirs, ir.BoolAttr):
        assert ours == theirs.value
    elif isinstance(theirs, (ir.IntegerAttr, ir.FloatAttr)):
        assert ours.value == theirs.value and ours.type == str(theirs.type)
    elif isinstance(theirs, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        assert [*ours.values] == [*theirs]
    elif isinstance(theirs, ir.FlatSymbolRefAttr):
        assert ours == Symbol(theirs.value)
    elif isinstance(theirs, (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)) and isinstance(ours, Dense):
        assert ours.is_splat == (theirs.is_splat and prod(ours.type.sizes) > 1)
        if str(ours.type.element) in "f16 f32 f64 i8 i16 i32 i64 ui8 ui16 ui32 ui64 i1":
            width = len(ours.data) if ours.is_splat else len(ours.data) // max(prod(ours.type.sizes), 1)
            array = np.array(theirs)
            raw = array.ravel()[:1].tobytes() if ours.is_splat else array.tobytes()
            assert bytes(ours.data) == raw and width * prod(ours.type.sizes) == array.nbytes
    else:
        return 0
    return 1


def prod(sizes: Any) -> int:
    return int(np.prod(sizes, dtype=np.int64))


@pytest.mark.parametrize("name", ["", "transformer_gradient", "solving", "sorts"])
def test_the_tree_is_what_jaxlib_reads(name: str) -> None:
    module = lowered(name) if name else all_forms()
    (ours,) = read(str(module))
    assert check_bindings(ours, module.operation, {}) > 50


# --- VHLO, MHLO, older texts
# ---------------------------------------------------------------------------------------------


@cache
def exported() -> tuple[str, str]:
    """A program as VHLO, and as StableHLO after jaxlib has read that."""
    from jaxlib.mlir.dialects import stablehlo

    program = PROGRAMS["cnn_forward" if "cnn_forward" in PROGRAMS else "digits_forward"]()
    data = export.export(jax.jit(program.fn))(*program.args).mlir_module_serialized
    with make_ir_context() as context:
        return str(ir.Module.parse(data)), str(stablehlo.deserialize_portable_artifact(context, data))


def test_vhlo_gives_the_tree_of_stablehlo() -> None:
    vhlo, stablehlo = exported()
    assert "vhlo.func_v1" in vhlo and "#vhlo.tensor_v1" in vhlo
    assert as_data(read(vhlo)) == as_data(read(stablehlo))


def test_every_operation_of_vhlo_gives_the_tree_of_stablehlo() -> None:
    vhlo, stablehlo = portable_forms()
    assert vhlo.count('"vhlo.') > 150 and '"stablehlo.' not in vhlo
    assert as_data(read(vhlo)) == as_data(read(stablehlo))


def test_vhlo_types_and_attributes() -> None:
    (op,) = body(
        '%0 = "vhlo.custom_call_v1"(%a) <{a = #vhlo.float_v1<1.5 : !vhlo.f32_v1>, '
        "api_version = #vhlo<api_version_v1 API_VERSION_TYPED_FFI>, "
        "b = #vhlo.type_v1<!vhlo.tf31_v1>, c = #vhlo.type_v1<!vhlo.none_v1>, d = "
        "#vhlo.array_v1<[#vhlo.bool_v1<true>]>, "
        'e = #vhlo.dict_v1<{#vhlo.string_v1<"k"> = #vhlo.integer_v1<2 : i64>}>, '
        'called_computations = #vhlo.array_v1<[#vhlo.string_v1<"f">]>, '
        "f = #vhlo.output_operand_alias_v1<outputTupleIndices = [0], operandIndex = 1, operandTupleIndices = []>, "
        'backend_config = #vhlo.string_v1<"">, has_side_effect = #vhlo.bool_v1<false>}> : '
        "(!vhlo.tensor_v1<4x!vhlo.f32_v1>)"
        " -> !vhlo.tuple_v1<!vhlo.tensor_v1<?x!vhlo.complex_v1<!vhlo.f64_v1>, #vhlo.type_extensions_v1<bounds = "
        "[7]>>, !vhlo.token_v1>"
    )
    assert op.name == "stablehlo.custom_call"
    assert op.results[0].type == tree.Tuple((Tensor((DYNAMIC,), Complex("f64"), (7,)), "token"))
    assert op.attributes == {
        "a": Number(1.5, "f32"),
        "api_version": Number(4, "i32"),
        "b": TypeOf("tf32"),
        "d": (True,),
        "e": {"k": Number(2, "i64")},
        "called_computations": (Symbol("f"),),
        "f": Alias((0,), 1, ()),
    }


def test_mhlo_has_the_names_of_stablehlo() -> None:
    ops = body(
        "%0 = mhlo.add %a, %a : tensor<4xf32>\n"
        '%1 = "mhlo.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>\n'
        '%2 = "mhlo.copy"(%1) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "%3 = mhlo.compare LT, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"
    )
    assert [op.name for op in ops] == ["stablehlo.add", "chlo.erf", "mhlo.copy", "stablehlo.compare"]


def test_older_texts_have_tensors_for_lists() -> None:
    new = body('%0 = "stablehlo.reduce_window"(%a, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): stablehlo.return %x : tensor<f32> }) '  # noqa: E501
               "{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>",  # noqa: E501
               "%a: tensor<4xf32>, %s: tensor<f32>")  # fmt: skip
    old = body('%0 = "stablehlo.reduce_window"(%a, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): stablehlo.return %x : tensor<f32> }) '  # noqa: E501
               "{window_dimensions = dense<2> : tensor<1xi64>, window_strides = dense<[2]> : tensor<1xi64>, padding = dense<0> : "  # noqa: E501
               "tensor<1x2xi64>, base_dilations = dense<1> : tensor<1xi64>} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>",  # noqa: E501
               "%a: tensor<4xf32>, %s: tensor<f32>")  # fmt: skip
    assert (
        new[0].attributes
        == old[0].attributes
        == {"window_dimensions": Elements("i64", (2,)), "window_strides": Elements("i64", (2,))}
    )


def test_a_number_that_stands_for_a_long_list_is_kept() -> None:
    (op,) = body(
        '%0 = "stablehlo.transpose"(%a) {permutation = dense<1> : tensor<100000xi64>} : (tensor<4xf32>) -> '
        "tensor<4xf32>"
    )
    assert op.attributes["permutation"] == Dense(Tensor((100000,), "i64"), (1).to_bytes(8, "little"), True)


def test_fields_of_structures_may_have_types() -> None:
    (op,) = body(
        '%0 = "stablehlo.all_reduce"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): stablehlo.return %x : tensor<f32> '
        "}) {replica_groups = "
        "dense<0> : tensor<1x1xi64>, channel_handle = #mhlo.channel_handle<handle = 3 : i64, type = 1>} : "
        "(tensor<4xf32>) -> tensor<4xf32>"
    )
    assert op.attributes["channel_id"] == 3


# --- details
# -------------------------------------------------------------------------------------------------------------


def test_operations_of_the_interpreters_tests() -> None:
    ops = body(
        "check.expect_eq_const %a, dense<1.0> : tensor<4xf32>\ncheck.expect_almost_eq_const %a, dense<1.0> : "
        "tensor<4xf32>\n"
        "check.eq %a, dense<1.0> : tensor<4xf32>\ncheck.expect_eq %a, %a : tensor<4xf32>\ncheck.expect_almost_eq %a, "
        "%a : tensor<4xf32>\n"
        "check.expect_close %a, %a, max_ulp_difference = 3 : tensor<4xf32>, tensor<4xf32>\n"
        '%0 = interpreter.probe %a, probe_id = "p" : tensor<4xf32>\ncheck.expect_serialized_eq %0, probe_id = "p" : '
        "tensor<4xf32>\n"
        '%1:2 = "interpreter.run_parallel"(%0, %a) {programs = [[@f, @g], [@h]]}'
        " : (tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)"
    )
    assert [len(op.operands) for op in ops] == [1, 1, 1, 2, 2, 2, 1, 1, 2]
    assert ops[0].attributes == {"value": Dense(Tensor((4,), "f32"), struct.pack("<f", 1.0), True)}
    assert ops[-1].attributes["programs"] == ((Symbol("f"), Symbol("g")), (Symbol("h"),))


def test_names_and_locations() -> None:
    (module,) = read(
        '#loc = loc("x.py":3:4)\n!t = tensor<2xf32>\nmodule @m {\n'
        'func.func public @main(%x: !t {a.b = #v} loc("weights"(#loc)), %arg1: !t) -> !t {\n'
        '%0 = stablehlo.add %x, %arg1 : !t loc(fused<"k">["jit(f)/add"(#loc2), unknown])\n'
        '%sum = stablehlo.add %0, %0 : !t loc(callsite("f" at callsite("g" at #loc)))\n'
        '%2 = stablehlo.add %sum, %0 : !t loc(fused[unknown, "n", "y.py":5:6 to :9])\n'
        'return %2 : !t loc(unknown)\n} loc(#loc)\n}\n#loc2 = loc(#loc3)\n#v = 7 : i32\n#loc3 = loc("z.py":7:8 to '
        "9:10)\n"
    )
    main = module.regions[0][0].ops[0]
    block = main.regions[0][0]
    assert [a.name for a in block.arguments] == ["weights", "arg1"]
    assert [op.results[0].name for op in block.ops[:3]] == ["", "sum", ""]
    places = [("jit(f)/add", "z.py", 7), ("f", "", 0), ("n", "y.py", 5), ("", "", 0)]
    assert [op.location for op in block.ops] == [Location(*place) for place in places]
    assert main.location == Location("", "x.py", 3) and module.location is None
    assert main.attributes["arg_attrs"] == ({"a.b": Number(7, "i32")}, {})


def test_types() -> None:
    def type_(text: str) -> Any:
        return (
            body("", f"%a: {text}")
            or read(f"func.func private @f({text})")[0].regions[0][0].ops[0].attributes["function_type"].type.inputs[0]
        )

    quantized = Quantized("i8", "f32", (0.5, 0.25), (3, 0), -127, 127, 1)
    assert type_("tensor<?x!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>>") == Tensor((DYNAMIC,), quantized)
    assert type_("!quant.uniform<u8:f32, 34.0:16>") == Quantized("ui8", "f32", (34.0,), (16,), 0, 255)
    assert type_("tensor<*xf32>") == Tensor(None, "f32")
    assert type_("tensor<0x3x?xbf16, #stablehlo.type_extensions<bounds = [?, ?, 5]>>") == Tensor(
        (0, 3, DYNAMIC), "bf16", (DYNAMIC, DYNAMIC, 5)
    )
    assert type_("memref<3xf32>") == tree.Memref((3,), "f32")
    assert type_("!stablehlo.future<tensor<f32>>") == tree.Future((F32,))
    assert type_("(tensor<f32>) -> ()") == tree.Function((F32,), ())
    assert type_("vector<4xf32>") == Opaque("vector<4xf32>")
    with pytest.raises(UnsupportedError, match=r"line 1: .*encoding #sparse"):
        type_("tensor<3xf32, #sparse.encoding<a>>")


def test_constants_and_resources() -> None:
    assert constant('dense<"0x0700"> : tensor<11xi1>').data == bytes([1, 1, 1] + [0] * 8)
    assert constant('dense<"0xFF"> : tensor<70xi1>') == Dense(Tensor((70,), "i1"), b"\1", True)
    assert constant('dense<"0x0F07"> : tensor<2xi4>').data == b"\xff\7"
    assert constant("dense<[[], []]> : tensor<2x0xf32>").data == b""
    assert (
        constant("dense<1.0> : tensor<2x0xf32>")
        == constant("dense<> : tensor<2x0xf32>")
        == Dense(Tensor((2, 0), "f32"), b"")
    )
    assert constant('dense<["a", "b\\22"]> : tensor<2xi8>') == tree.Strings(Tensor((2,), "i8"), ("a", 'b"'))
    text = (
        "func.func @f() { %0 = stablehlo.constant dense_resource<key> : tensor<2xi16> return }\n"
        '{-# dialect_resources: { builtin: { other: "0x0400000000", key: "0x0800000001000200" } } #-}'
    )
    assert read(text)[0].regions[0][0].ops[0].regions[0][0].ops[0].attributes["value"].data == b"\1\0\2\0"


WRONG = {
    "%0 = stablehlo.add %a, %b : tensor<4xf32>": "line 2, column 24: %b is not defined before",
    "%0 = stablehlo.add %a, %a : tensor<5xf32>": "an operand of another type: it is tensor<4xf32>, not tensor<5xf32>",
    "%0:2 = stablehlo.add %a, %a : tensor<4xf32>": "names",
    "%a = stablehlo.add %a, %a : tensor<4xf32>": "%a is defined twice",
    "%0 = stablehlo.unheard %a : tensor<4xf32>": "there is no operation 'stablehlo.unheard'",
    '%0 = "stablehlo.add"(%a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>': "2 types of 1 operand",
    "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>": "2 elements for a constant of 3",
    "%0 = stablehlo.constant dense<[[1, 2, 3, 4]]> : tensor<2x2xi32>": "lists of the constant",
    "%0 = stablehlo.constant dense<300> : tensor<i8>": "300 does not fit 8 bits",
    "%0 = stablehlo.constant dense<1.5> : tensor<i8>": "no element of this type",
    '%0 = stablehlo.constant dense<"0x010203"> : tensor<3xi16>': "3 bytes for a constant of 6",
    '%0 = stablehlo.constant dense<"0x0102ZZ"> : tensor<3xi8>': "hexadecimal",
    "%0 = stablehlo.constant dense<> : tensor<0x1000000000xi8> %1 = stablehlo.constant dense<[]> : "
    "tensor<1000000000x0xi8>": "elements",
    "%0 = stablehlo.constant dense_resource<__elided__> : tensor<3xi8>": "without its constants",
    "%0 = stablehlo.reduce_precision %a, format = e5 : tensor<4xf32>": "no format such as e5m7",
    "%0 = stablehlo.add %a, %a {b = 1, b = 2} : tensor<4xf32>": "stands twice",
    "%0 = stablehlo.tanh %a {r = #stablehlo.result_accuracy<atol = f32>} : tensor<4xf32>": "the field 'atol' holds "
    "something else",
    "%0 = stablehlo.tanh %a {r = #stablehlo.dot<lhs_batching_dimensions = 1>} : tensor<4xf32>": "holds something else",
    "%0 = stablehlo.add %a, %a {b = #x} : tensor<4xf32>": "no alias #x",
    '%0 = stablehlo.add %a, %a {b = "\\zz"} : tensor<4xf32>': "no escape",
    "%0 = stablehlo.add %a, %a : tensor<99999999999999999999xf32>": "64 bits",
    f"%0 = stablehlo.add %a, %a {{b = {'[' * 1000}}} : tensor<4xf32>": "levels of nesting",
    f"%0 = stablehlo.add %a, %a : {'tuple<' * 1000}": "levels of nesting",
    f"%0 = stablehlo.constant dense<1.0> : tensor<{'1x' * 65}f32>": "65 dimensions: at most 64 are read",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_say_what_and_where(text: str) -> None:
    with pytest.raises(ParseError, match=re.escape(WRONG[text])) as caught:
        body(text)
    assert re.match(r"line 2, column \d+: .*\n.*\n *\^$", str(caught.value))


@pytest.mark.parametrize("rest", ["", ", b = dense<1> : tensor<i32>} {}"])
def test_groups_of_devices_without_a_mesh(rest: str) -> None:
    with pytest.raises(ParseError, match="a bracket expected"):
        read("module attributes {a = #stablehlo.replica_group_mesh_axes" + rest)


@pytest.mark.parametrize("text", ["func.func @f(%a: tensor<4xf32,", "func.func @f(%a: tensor<4xf32, \n"])
def test_texts_that_end_in_a_type(text: str) -> None:
    with pytest.raises(ParseError, match="the encoding of a tensor expected, but the text ends"):
        read(text)


def test_successors_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="line 2: cf.br has successors"):
        body('"cf.br"()[^bb1] : () -> ()')


def test_aliases_in_one_another_are_bounded() -> None:
    doubling = "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(60))
    with pytest.raises(ParseError, match="100,000 values"):
        read("#a0 = 1\n" + doubling + "module attributes {x.y = #a60} {}")
    with pytest.raises(ParseError, match="#a stands for itself"):
        read("module attributes {x.y = #a} {}\n#a = [#a]")
    chain = "".join(f'#loc{i + 1} = loc(callsite("f" at #loc{i}))\n' for i in range(5000))
    assert read("#loc0 = loc(unknown)\n" + chain + "module {} loc(#loc5000)")[0].location == Location("f")


# --- damaged texts
# -------------------------------------------------------------------------------------------------------

PIECES = (
    "{ } ( ) [ ] < > , = : -> # ! % @ ^bb0 %a %0:2 @f #loc #x !t tensor<4xf32> tensor<?xf32> 4x i32 dense< array<i64: "
    'loc( " "x" \\ '
    "0x 0xFF -1 99999999999999999999 1.0e400 1e999999999 true unit {-# #-} // stablehlo.add func.func module return "
    "\u00e9 \0"
).split(" ")


@cache
def tokens() -> list[list[str]]:
    """Texts cut into tokens, blanks included."""
    texts = [str(all_forms()), printed(all_forms())[1], portable_forms()[0], printed(lowered("newton_roots"))[0]]
    return [
        re.findall(r"\w+|\s+|[^\w\s]", text)
        for text in (t[at : at + 4000] for t in texts for at in range(0, min(len(t), 12000), 4000))
    ]


@settings(
    max_examples=seeds.count(250, 1500),
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
    deadline=None,
)
@given(st.data())
def test_damaged_texts_give_errors_of_ours(data: Any) -> None:
    """Tokens left out, doubled, replaced by pieces of the grammar or of other texts. Pieces of texts are put into a
    function."""
    parts = list(tokens()[data.draw(st.integers(0, len(tokens()) - 1))])
    for _ in range(data.draw(st.integers(0, 3))):
        at, change = data.draw(st.integers(0, len(parts))), data.draw(st.integers(0, 4))
        if change == 0:
            del parts[at : at + 1]
        elif change == 1:
            parts[at:at] = parts[at : at + 3]
        elif change == 2:
            parts[at:at] = [data.draw(st.sampled_from(PIECES))]
        elif change == 3:
            parts[at : at + 1] = [data.draw(st.sampled_from(PIECES))]
        else:
            other = tokens()[data.draw(st.integers(0, len(tokens()) - 1))]
            parts[at : at + 1] = other[at : at + 6]
    try:
        read("".join(parts))
    except XlaWasmError as error:
        assert str(error)
