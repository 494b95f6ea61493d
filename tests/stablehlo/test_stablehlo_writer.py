"""HLO modules as StableHLO text: jaxlib reads it, makes HLO of it again, and that gives the same results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from jaxlib import _jax

from tests.support import (
    closeness,
)
from tests.support.closeness import assert_all
from tests.support.samples import REPLICATED, SAMPLES
from tests.support.text_cases import CASES
from tests.support.whole_programs import PROGRAMS
from xla_wasm import HloModule, UnsupportedError, XlaWasmError, evaluate
from xla_wasm.hlo.ir import Module
from xla_wasm.mlir.text import read
from xla_wasm.ops.sample import Sample
from xla_wasm.ops.table import FAMILIES
from xla_wasm.reference import evaluate_replicated

NOT_SAID = frozenset(
    "all-gather-done all-gather-start all-reduce-done all-reduce-start async-done async-start async-update "
    "collective-permute-done collective-permute-start copy-done copy-start domain fusion ragged-all-to-all "
    "rng-get-and-update-state "
    "scaled-dot stochastic-convert".split()
)
"""Opcodes that StableHLO does not have."""
EXPANDED = frozenset("acos acosh asin asinh atan atanh cosh sinh".split())
"""Opcodes that jaxlib writes as other operations when it makes HLO of CHLO."""
EXPANDED_COMPLEX = frozenset("exponential log log-plus-one sqrt".split()) | EXPANDED
ULP, COMPLEX_ULP = 8, 4096
"""Units in the last place that its expansions may be off: those of complex functions lose digits."""


def again(text: str) -> Module:
    """The HLO that jaxlib makes of StableHLO text."""
    computation = _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    return HloModule.from_proto(computation.as_serialized_hlo_module_proto())


def ops_of(text: str) -> set[str]:
    """The names of all operations, as our reader reads them."""
    found, pending = set(), [*read(text)]
    while pending:
        op = pending.pop()
        found.add(op.name)
        pending += [inner for region in op.regions for block in region for inner in block.ops]
    return found


def tolerance(sample: Sample) -> float:
    """Units in the last place by which what jaxlib writes otherwise may be off; 0: the same bits."""
    is_complex = any(np.iscomplexobj(x) for x in sample.args)
    if is_complex:
        return COMPLEX_ULP if sample.opcode in EXPANDED_COMPLEX else 0
    return ULP if sample.opcode in EXPANDED else 0


def check_sample(sample: Sample) -> bool:
    """Returns true if StableHLO can say the sample; then the module that comes back must give the same results."""
    module = sample.module()
    opcodes = {x.opcode for x in module.instructions()}
    try:
        text = module.to_stablehlo()
    except UnsupportedError as error:
        assert any(x.where.split(" (")[0] in str(error) for x in module.instructions())
        return False
    assert not opcodes & NOT_SAID
    assert "builtin.module" in ops_of(text)
    if "6E2M3FN" in text or "6E3M2FN" in text:  # constants of which jaxlib does not survive
        return True
    given, given_again = sample.host.arguments(), sample.host.arguments()
    expected = evaluate(module, *sample.args, **given)
    # Where XLA differs from a function of complex numbers, so does what jaxlib makes of it: then it is our reader's.
    ours = sample.xla and sample.opcode in EXPANDED_COMPLEX
    results = evaluate(HloModule.from_stablehlo(text) if ours else again(text), *sample.args, **given_again)
    assert len(results) == len(expected)
    for actual, wanted in zip(results, expected):
        assert actual.dtype == wanted.dtype
        closeness.assert_same(actual, wanted, tolerance(sample))
    assert_equal(given_again, given)
    return True


def assert_equal(a: Any, b: Any) -> None:
    """Of what came out to the host."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_equal(x, y)
    else:
        closeness.assert_same(np.asarray(a), np.asarray(b), 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_come_back(family: str) -> None:
    said: Counter[bool] = Counter()
    opcodes = {op.opcode for op in FAMILIES[family].ops}
    for sample in SAMPLES:
        if sample.opcode in opcodes:
            said[check_sample(sample)] += 1
    assert said[True] > said[False] // 2


def test_samples_of_several_devices_come_back() -> None:
    said = 0
    for sample in REPLICATED:
        module = sample.module(fixed=True)
        try:
            text = module.to_stablehlo()
        except UnsupportedError:
            continue
        expected = evaluate_replicated(module, sample.args, sample.replicas, sample.partitions)
        results = evaluate_replicated(again(text), sample.args, sample.replicas, sample.partitions)
        for a, b in zip(results, expected, strict=True):
            assert_all(a, b)
        said += 1
    assert said > len(REPLICATED) // 2


@pytest.mark.parametrize("name", sorted(name for name in PROGRAMS if len(name) % 3 == 1))
def test_programs_come_back(name: str) -> None:
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        lowered = jax.jit(program.fn).lower(*program.args)
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    module = HloModule.from_proto(proto)
    returned = again(module.to_stablehlo())
    assert [p.shape.without_layout() for p in returned.entry.parameters] == [
        p.shape.without_layout() for p in module.entry.parameters
    ]
    if len(proto) > 60_000:
        return
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    args = [np.asarray(x) for i, x in enumerate(jax.tree.leaves(program.args)) if i in kept]
    assert_all(evaluate(returned, *args), evaluate(module, *args))


def test_hlo_texts_are_written_or_refused() -> None:
    count = 0
    for text in CASES.values():
        try:
            written_text = Module.from_text(text).to_stablehlo()
        except XlaWasmError as error:
            assert str(error)
        else:
            assert "func.func" in ops_of(written_text)
            count += 1
    assert count > len(CASES) // 2


# --- details
# -------------------------------------------------------------------------------------------------------------


def written(text: str) -> str:
    return Module.from_text(text).to_stablehlo()


def test_tuples_are_taken_apart() -> None:
    text = written(
        "HloModule m, input_output_alias={ {0}: (0, {1,0}, may-alias) }, buffer_donor={ (0, {0}) }\n"
        "body { p = (s32[], (f32[2], f32[])) parameter(0) i = s32[] get-tuple-element(p), index=0 "
        "t = (f32[2], f32[]) get-tuple-element(p), index=1 one = s32[] constant(1) "
        "j = s32[] add(i, one) ROOT r = (s32[], (f32[2], f32[])) tuple(j, t) }\n"
        "cond { p = (s32[], (f32[2], f32[])) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
        "constant(3) "
        "ROOT c = pred[] compare(i, n), direction=LT }\n"
        "ENTRY e { p = (s32[], (f32[2], f32[])) parameter(0), sharding={{replicated}, {replicated}, {replicated}} "
        "w = (s32[], (f32[2], f32[])) while(p), condition=cond, body=body ROOT q = (f32[2], f32[]) "
        "get-tuple-element(w), index=1 }"
    )
    assert '%arg1: tensor<i32> {mhlo.sharding = "{replicated}", jax.buffer_donor = true} loc("p.0")' in text
    assert 'tensor<2xf32> {mhlo.sharding = "{replicated}", tf.aliasing_output = 0 : i32} loc("p.1.0")' in text
    assert ") -> (tensor<2xf32>, tensor<f32>) {" in text and "tuple" not in text
    assert [p.shape.element_type for p in again(text).entry.parameters] == ["s32", "f32", "f32"]


def test_what_a_module_says_is_kept() -> None:
    text = written(
        'HloModule m, replica_count=2, num_partitions=4, frontend_attributes={a="b"}, '
        "input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }\n"
        "ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]} y = f32[8] parameter(1) ROOT s = f32[8] "
        "add(x, y), "
        'frontend_attributes={k="v\\"w"}, metadata={op_name="jit(f)/add" source_file="f.py" source_line=3} }'
    )
    module = again(text)
    assert module.entry.root.frontend_attributes == {"k": 'v"w'} and module.entry.root.metadata is not None
    assert module.entry.root.metadata.op_name == "jit(f)/add" and 'loc("jit(f)/add"("f.py":3:0))' in text
    assert "mhlo.num_replicas = 2" in text and "mhlo.num_partitions = 4" in text and 'a" = "b"' in text
    assert 'mhlo.sharding = "{devices=[4]<=[4]}"' in text
    assert module.input_output_alias == [((), 0, (), "may-alias")] and module.buffer_donor == [(1, ())]


def test_computations_that_are_called_often_are_functions() -> None:
    lines = ["c0 { p = f32[] parameter(0) ROOT s = f32[] sine(p) }"]
    for i in range(12):
        branches = f"true_computation=c{i}, false_computation=c{i}"
        lines.append(
            f"c{i + 1} {{ p = f32[] parameter(0) z = f32[] constant(0) q = pred[] compare(p, z), direction=LT "
            f"ROOT s = f32[] conditional(q, p, p), {branches} }}"
        )
    text = written(
        "HloModule m\n" + "\n".join(lines) + "\nENTRY e { p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=c12 }"
    )
    assert len(text) < 12_000
    (result,) = evaluate(again(text), np.float32(0.5))
    assert (
        result.item()
        == evaluate(Module.from_text("ENTRY e { p = f32[] parameter(0) ROOT s = f32[] sine(p) }"), np.float32(0.5))[
            0
        ].item()
    )


def test_deep_computations_are_functions() -> None:
    lines = ["c0 { p = f32[] parameter(0) ROOT s = f32[] negate(p) }"]
    for i in range(60):
        lines.append(f"c{i + 1} {{ p = f32[] parameter(0) q = pred[] constant(true) ROOT s = f32[] conditional(q, p, p), "  # noqa: E501
                     f"true_computation=c{i}, false_computation=d{i} }}\nd{i} {{ ROOT p = f32[] parameter(0) }}")  # fmt: skip  # noqa: E501
    order = [line for pair in lines for line in reversed(pair.split("\n"))]
    text = written(
        "HloModule m\n" + "\n".join(order) + "\nENTRY e { p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=c60 }"
    )
    assert evaluate(again(text), np.float32(2.0))[0].item() == -2.0


def test_composites() -> None:
    text = written(
        "HloModule m\nf { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }\n"
        "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] call(x), to_apply=f, is_composite=true, frontend_attributes="
        '{composite.attributes="{k = 1 : i64}",composite.name="a.b",composite.version="2",other="o"} }'
    )
    assert '"stablehlo.composite"' in text
    root = again(text).entry.root
    assert root.opcode == "call" and root.attrs["is_composite"]
    said = {"composite.attributes": "{k = 1 : i64}", "composite.name": "a.b", "composite.version": "2"}
    assert root.frontend_attributes == said  # jaxlib forgets others
    assert 'mhlo.frontend_attributes = {"other" = "o"}' in text


def test_numbers_that_are_not_finite() -> None:
    module = Module.from_text(
        "HloModule m\nENTRY e { x = f32[2,3] parameter(0) s = f32[3] parameter(1) "
        "ROOT r = f32[2,3] batch-norm-inference(x, s, s, s, s), epsilon=0.5, feature_index=1 }"
    )
    module.entry.root.attrs["epsilon"] = float("inf")  # as a proto may have it
    text = module.to_stablehlo()
    assert "epsilon = 0x7F800000 : f32" in text
    assert again(text).entry.root.attrs["epsilon"] == float("inf")


def test_attributes_as_text_are_checked() -> None:
    call = 'custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI, backend_config="{}"'
    text = written(f"HloModule m\nENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] {call.format('{n = 1 : i64}')} }}")
    assert "backend_config = {n = 1 : i64}" in text
    for config in ("{n = }", "{} : x", "no", "{n = 1}} : () -> ()"):
        with pytest.raises(UnsupportedError, match="custom-call 'r': StableHLO cannot say attributes that are"):
            written(f"HloModule m\nENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] {call.format(config)} }}")


def test_constants_of_many_elements() -> None:
    shapes = {"f32": "<f4", "s64": "<i8", "u8": "u1", "pred": "?"}
    for name, dtype in shapes.items():
        values = np.arange(600).reshape(20, 30).astype(dtype)
        literal = str(values.tolist()).replace("[", "{").replace("]", "}").lower()
        text = written(f"HloModule m\nENTRY e {{ ROOT c = {name}[20,30]{{0,1}} constant({literal}) }}")
        assert 'dense<"0x' in text
        np.testing.assert_array_equal(evaluate(again(text))[0], values)


UNSAID = {
    "ROOT r = f32[4] tanh(x), result_accuracy={tolerance={atol=inf,rtol=0,ulps=1}}": "tanh 'r': StableHLO cannot say "
    "an accuracy that is",
    "ROOT r = f32[4] stochastic-convert(x, u)": "stochastic-convert 'r'",
    "ROOT r = s1[4] convert(x)": "convert 'r': StableHLO has no type for s1",
    'ROOT r = f32[4] custom-call(x), custom_call_target="f", window={size=3}': "custom-call 'r': StableHLO cannot say "
    "a window",
}


@pytest.mark.parametrize("line", UNSAID)
def test_what_stablehlo_cannot_say_is_named(line: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        written(f"HloModule m\nENTRY e {{ x = f32[4] parameter(0) u = u32[4] parameter(1) {line} }}")
    assert UNSAID[line] in str(caught.value)
