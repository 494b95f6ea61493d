"""JAX's programs on several devices: divided by `passes.manual`, run by run_global and run_replicated, against
XLA:CPU's devices."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.support import closeness
from tests.support.differential import run
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.programs_sharded import PROGRAMS
from tests.support.sharded_programs import Array, compiled_by_xla, devices, divided, joined, optimized, shardy
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.sharding import Shards
from xla_wasm.hlo.verify import verify
from xla_wasm.jax import lower, mesh
from xla_wasm.passes.localize import INTO, OUT_OF, target
from xla_wasm.passes.manual import PerDevice, per_device
from xla_wasm.reference import evaluate_replicated

LOWERINGS = ("shardy", "gspmd", "partitioned")
X = np.arange(32, dtype=np.float32).reshape(4, 8)


# --- whole programs
# -----------------------------------------------------------------------------------------------------


@cache
def arguments(name: str) -> list[Array]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(PROGRAMS[name]().args)]


@cache
def xla(name: str) -> Any:
    program = PROGRAMS[name]()
    return compiled_by_xla(program.make(devices(**program.axes)), *program.args)


@cache
def module(name: str, lowering: str) -> Module:
    program = PROGRAMS[name]()
    if lowering == "partitioned":
        return Module.from_proto(optimized(xla(name)).as_serialized_hlo_module_proto())
    with shardy(lowering == "shardy"):
        return lower(program.make(mesh(**program.axes)), *program.args)


@cache
def division(name: str, lowering: str) -> PerDevice:
    return per_device(module(name, lowering))


def evaluated(name: str, **options: Any) -> list[Array]:
    own = division(name, "shardy")
    given = divided(arguments(name), own.parameters, own.module.num_partitions)
    return joined(evaluate_replicated(own.module, given, **options), own.results)


@cache
def judged(name: str) -> tuple[list[Array], list[Array]]:
    """The true values, and those of XLA:CPU's devices."""
    return evaluated(name, precision="f64"), [
        np.asarray(leaf) for leaf in jax.tree.leaves(xla(name)(*PROGRAMS[name]().args))
    ]


def check(name: str, results: list[Array]) -> None:
    for i, (actual, true, other) in enumerate(zip(results, *judged(name), strict=True)):
        closeness.assert_near_true(actual, true, other, f"{name}, result {i}")


@cache
def artifact(name: str, lowering: str, to: str) -> Artifact:
    return xla_wasm.compile(module(name, lowering), xla_wasm.Options(target=to))


@pytest.mark.parametrize("name", PROGRAMS)
def test_reference(name: str) -> None:
    check(name, evaluated(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_reference_on_global_arrays(name: str) -> None:
    check(name, xla_wasm.evaluate(module(name, "shardy"), *arguments(name)))


@pytest.mark.parametrize("lowering", ["shardy", "gspmd"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_divided_program(name: str, lowering: str) -> None:
    """It is well-formed, has no wrappers left, keeps its devices as a proto, and is what it is divided into once
    more."""
    made = division(name, lowering).module
    verify(made)
    assert not any(target(x) in (*INTO, *OUT_OF) for x in made.instructions())
    again = Module.from_proto(made.to_proto())
    assert again.num_partitions == np.prod(list(PROGRAMS[name]().axes.values()))
    assert per_device(again).module is again


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_global_arrays(name: str, lowering: str) -> None:
    exe = xla_wasm.load(artifact(name, lowering, "simd128"))
    check(name, exe.run_global(arguments(name)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_relaxed_simd(name: str) -> None:
    check(name, xla_wasm.load(artifact(name, "shardy", "relaxed-simd")).run_global(arguments(name)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_each_devices_arrays(name: str) -> None:
    """Copies of a result are the same on all devices that have them, and two runs give the same bits."""
    exe, own = xla_wasm.load(artifact(name, "shardy", "simd128")), division(name, "shardy")
    given = divided(arguments(name), own.parameters, own.module.num_partitions)
    first, second = (joined(exe.run_replicated(given), own.results) for _ in range(2))
    check(name, first)
    for a, b in zip(first, second, strict=True):
        closeness.assert_same(a, b, what=name)


@pytest.mark.parametrize("name", [name for name, make in PROGRAMS.items() if make().alone])
def test_equals_one_device(name: str) -> None:
    program = PROGRAMS[name]()
    assert program.alone is not None
    alone = run(lower(program.alone, *program.args), *arguments(name))
    together = xla_wasm.load(artifact(name, "shardy", "simd128")).run_global(arguments(name))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def test_losses_of_training_equal_those_of_one_device() -> None:
    name = "data_parallel_adam"
    program = PROGRAMS[name]()
    assert program.alone is not None
    *_, alone = run(lower(program.alone, *program.args), *arguments(name))
    *_, together = xla_wasm.load(artifact(name, "shardy", "simd128")).run_global(arguments(name))
    assert together.shape == (4,) and together[-1] < together[0]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_collectives_of_other_types() -> None:
    def fn(a: Any) -> Any:
        return lax.psum(a, "x"), lax.all_gather(a, "x", tiled=True), lax.ppermute(a, "x", [(0, 1), (1, 0)])

    for dtype in (jnp.bfloat16, np.float16, np.int8, np.uint32, np.complex64):
        array = X.astype(dtype)
        specs: Any = {"in_specs": P("x"), "out_specs": (P(), P(), P("x")), "check_vma": False}
        exe = xla_wasm.load(xla_wasm.compile(lower(fn, array, mesh={"x": 2}, **specs)))
        wanted = jax.jit(jax.shard_map(fn, mesh=devices(x=2), **specs))(array)
        for a, b in zip(exe.run_global([array]), wanted, strict=True):
            closeness.assert_same(a, np.asarray(b), what=str(dtype))


# --- what each device has
# -----------------------------------------------------------------------------------------------


def sizes(shards: Sequence[Shards | None]) -> list[tuple[int, ...] | None]:
    return [s and s.sizes for s in shards]


def sum_rows(a: Any) -> Any:
    return lax.psum(a, "y")


def on(axes: dict[str, int], fn: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
    return jax.shard_map(fn, mesh=mesh(**axes), in_specs=in_specs, out_specs=out_specs, **options)


def lowered(fn: Any, **options: Any) -> Module:
    """Returns the module that jax.jit lowers, with shardings of its own in `options`."""
    made = jax.jit(fn, **options).lower(X)
    return Module.from_proto(made.compiler_ir("hlo").as_serialized_hlo_module_proto())


GRID = {"x": 2, "y": 2}


def test_parameters_lie_as_the_manual_computation_wants_them() -> None:
    own = per_device(lower(on(GRID, sum_rows, P("x", "y"), P("x", None)), X))
    assert own.parameters == [Shards((4, 8), (2, 4), ((0, 0), (0, 4), (2, 0), (2, 4)))]
    assert own.results == [Shards((4, 4), (2, 4), ((0, 0), (0, 0), (2, 0), (2, 0)))]


def test_two_axes_of_one_dimension() -> None:
    own = per_device(lower(on(GRID, lambda a: a, P(("y", "x")), P(("y", "x"))), X))
    assert own.parameters[0] is not None and own.parameters[0].starts == ((0, 0), (2, 0), (1, 0), (3, 0))


def test_a_parameter_used_in_several_ways_is_whole() -> None:
    own = per_device(lower(lambda a: (on(GRID, sum_rows, P("x", "y"), P("x", None))(a), a), X))
    assert sizes(own.parameters) == [(4, 8)] and sizes(own.results) == [(2, 4), (4, 8)]


@pytest.mark.parametrize("lowering", ["shardy", "gspmd"])
def test_declared_shardings_are_kept(lowering: str) -> None:
    real = devices(**GRID)
    fn = jax.shard_map(sum_rows, mesh=real, in_specs=P("x", "y"), out_specs=P("x", None))
    rows, cut_more = NamedSharding(real, P("x", None)), NamedSharding(real, P("x", "y"))
    with shardy(lowering == "shardy"):
        own = per_device(lowered(fn, in_shardings=rows, out_shardings=cut_more))
    assert sizes(own.parameters) == [(2, 8)] and sizes(own.results) == [(2, 2)]
    exe = xla_wasm.load(xla_wasm.compile(own.module))
    results = exe.run_replicated(divided([X], own.parameters, 4))
    np.testing.assert_array_equal(joined(results, own.results)[0], X[:, :4] + X[:, 4:])


def test_explicit_axes() -> None:
    real = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices("cpu")[:4])
    fn = jax.shard_map(sum_rows, mesh=real, in_specs=P("x", "y"), out_specs=P("x", None))
    array = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(real, P("x", "y")))
    exe = xla_wasm.load(xla_wasm.compile(lower(fn, array)))
    np.testing.assert_array_equal(exe.run_global([X])[0], X[:, :4] + X[:, 4:])


def test_a_mesh_of_one_device_stays_one_device() -> None:
    module = lower(
        lambda a: lax.psum(a, "x") + lax.axis_index("x"),
        X,
        mesh={"x": 1},
        in_specs=P("x"),
        out_specs=P("x"),
        check_vma=False,
    )
    assert per_device(module).module is module
    np.testing.assert_array_equal(run(module, X)[0], X)


def test_a_program_without_arguments() -> None:
    for lowering in (True, False):
        with shardy(lowering):
            exe = xla_wasm.load(xla_wasm.compile(lower(on({"x": 4}, lambda: lax.axis_index("x")[None], (), P("x")))))
        np.testing.assert_array_equal(exe.run_global([])[0], [0, 1, 2, 3])


def test_everything_replicated() -> None:
    for lowering in (True, False):
        with shardy(lowering):
            exe = xla_wasm.load(xla_wasm.compile(lower(on({"x": 4}, lambda a: lax.psum(a, "x"), P(), P()), X)))
        np.testing.assert_array_equal(exe.run_global([X])[0], 4 * X)


def test_of_blocks_that_several_devices_have_the_first_one_counts() -> None:
    fn = on(GRID, lambda a: a + lax.axis_index("y"), P("x"), P("x"), check_vma=False)
    np.testing.assert_array_equal(xla_wasm.load(xla_wasm.compile(lower(fn, X))).run_global([X])[0], X)


def test_without_collectives_it_still_is_for_all_devices() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(on({"x": 4}, lambda a: a + 1, P("x"), P("x")), X)))
    np.testing.assert_array_equal(exe.run_global([X])[0], X + 1)
    with pytest.raises(xla_wasm.ArgumentError, match=r"runs on 4 devices.* exe.run_global"):
        exe.run(X)
    with pytest.raises(xla_wasm.ArgumentError, match="runs on 4 devices.*got 2"):
        exe.run_replicated([[X[:1]]] * 2)


def test_weights_and_states_are_given_whole() -> None:
    program = PROGRAMS["fully_sharded_sgd"]()
    assert program.alone is not None
    w, v, x, y = arguments("fully_sharded_sgd")
    given = lower(program.make(mesh(**program.axes)), w, v, x, y)
    options = xla_wasm.Options(state=(("w", "1"), ("v", "2")), weights=("x",))
    exe = xla_wasm.load(xla_wasm.compile(given, options))
    for name, array in (("w", w), ("v", v), ("x", x)):
        exe.set(name, array)
        np.testing.assert_array_equal(exe.get(name), array)
    np.testing.assert_array_equal(exe.get("v", device=2), v[:, 2:3])
    for _ in range(3):
        (loss,) = exe.run_global([y])
        wanted, w, v = (np.asarray(a) for a in jax.jit(program.alone)(w, v, x, y))
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(exe.get("w"), w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(exe.get("v"), v, rtol=1e-4, atol=1e-6)
    with pytest.raises(xla_wasm.ArgumentError, match=r"must be float32\[16,24\], got float32\[2,24\]"):
        exe.set("w", w[:2])
    with pytest.raises(xla_wasm.ArgumentError, match=r"must be float32\[2,24\], got float32\[16,24\]"):
        exe.set("w", w, device=1)


# --- what is refused
# ----------------------------------------------------------------------------------------------------


def both(a: Any) -> Any:
    return on(GRID, sum_rows, P("x", "y"), P("x", None))(a)


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (
            lambda a: both(a).sum(),
            r"reduce '.*' \(op_name 'jit\(<lambda>\)/reduce_sum'.*dimension 0 of an operand is sharded",
        ),
        (lambda a: both(a) @ both(a), "dot .*dimension 0 of an operand is sharded"),
        (lambda a: jnp.cumsum(both(a), 0), "sharded"),
        (lambda a: both(a)[::-1], "reverse .*dimension 0 of an operand is sharded"),
        (lambda a: both(a).reshape(-1), "reshape .*dimension 0 of an operand is sharded"),
        (lambda a: both(a)[jnp.array([2, 0])], "gather .*depends on what other devices hold"),
        (
            lambda a: on(GRID, lambda a: a, P(None, "x"), P(None, "x"))(both(a)),
            "holds f32.2,4. of .* dimension 0 other devices hold",
        ),
        (
            lambda a: both(a) + on(GRID, sum_rows, P(None, ("x", "y")), P(None, "x"))(a),
            "along different dimensions among the same devices",
        ),
        (
            lambda a: lax.dot(both(a), on(GRID, sum_rows, P(None, ("x", "y")), P(None, "x"))(a)),
            "along different dimensions among the same",
        ),
        (lambda a: lax.fori_loop(0, 2, lambda i, c: c.T, both(a)), "along different dimensions among the same devices"),
        (
            lambda a: both(a) + on(GRID, sum_rows, P("y", "x"), P("y", None), check_vma=False)(a),
            "other devices hold what is wanted",
        ),
        (lambda a: lax.fori_loop(0, 3, lambda i, c: jnp.tile(both(c) + c.sum(), 2), a), "needs XLA's partitioner"),
    ],
)
def test_what_needs_a_partitioner(fn: Any, what: str) -> None:
    message = f"(?s){what}.*What to do: put the whole step inside one jax.shard_map"
    for lowering in (True, False):
        with shardy(lowering), pytest.raises(xla_wasm.UnsupportedError, match=message):
            xla_wasm.compile(lower(fn, X))


def test_results_that_would_have_to_be_gathered() -> None:
    real = devices(**GRID)
    fn = jax.shard_map(sum_rows, mesh=real, in_specs=P("x", "y"), out_specs=P("x", None))
    for lowering, spec in ((True, P()), (True, P(None, "x")), (False, P(None, "x"))):
        with (
            shardy(lowering),
            pytest.raises(
                xla_wasm.UnsupportedError, match="needs XLA's partitioner: .*other devices hold what is wanted"
            ),
        ):
            xla_wasm.compile(lowered(fn, out_shardings=NamedSharding(real, spec)))


def test_sharding_annotations_alone_run_on_one_device() -> None:
    real = devices(**GRID)
    fn = jax.jit(lambda a: lax.with_sharding_constraint(a * 2, NamedSharding(real, P("x"))))
    for lowering in (True, False):
        with shardy(lowering):
            exe = xla_wasm.load(xla_wasm.compile(lower(fn, X)))
        np.testing.assert_array_equal(exe.run(X)[0], 2 * X)
        for call in (lambda exe=exe: exe.run_global([X]), lambda exe=exe: exe.run_replicated([[X]] * 4)):
            with pytest.raises(
                xla_wasm.UnsupportedError, match=r"runs on one device: custom-call .*put the whole step inside"
            ):
                call()


def test_global_arrays_of_a_program_that_does_not_divide_them() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda a: a + 1, X)))
    with pytest.raises(
        xla_wasm.ArgumentError, match=r"which part of a global array argument 0 \('a'\) is: call exe.run_replicated"
    ):
        exe.run_global([X])


def test_wrong_arguments() -> None:
    module = lower(on(GRID, sum_rows, P("x", "y"), P("x", None)), X)
    exe = xla_wasm.load(xla_wasm.compile(module))
    cases = [
        (lambda: exe.run(X), "runs on 4 devices .*call exe.run_replicated .* or exe.run_global with whole arrays"),
        (lambda: exe.run_global([X[:2]]), r"argument 0 \('a'\) must be float32\[4,8\], got float32\[2,8\]"),
        (lambda: exe.run_global([X, X]), "takes 1 argument"),
        (lambda: exe.run_global([X], num_partitions=2), "num_partitions=4, got num_partitions=2"),
        (
            lambda: exe.run_replicated([[X]] * 4),
            r"device 0: argument 0 \('a'\) must be float32\[2,4\], got float32\[4,8\]",
        ),
        (
            lambda: xla_wasm.compile(module, xla_wasm.Options(num_partitions=2)),
            "num_partitions=2: .* are for 4 devices",
        ),
        (
            lambda: xla_wasm.load(xla_wasm.compile(module), physical=True).run_global([X]),
            "whole arrays need a load without `physical`",
        ),
        (lambda: lower(jnp.sin, X, in_specs=P()), "in_specs and out_specs need a mesh"),
        (lambda: lower(jnp.sin, X, mesh={"x": 4}, in_specs=P()), "with in_specs give out_specs too"),
        (lambda: lower(jnp.sin, X, mesh=4), "a mesh is a jax.sharding.Mesh"),
        (
            lambda: lower(lambda a, k: a, X, k=1, mesh={"x": 4}, in_specs=P(), out_specs=P()),
            "positional arguments only, got k",
        ),
    ]
    for call, message in cases:
        with pytest.raises(xla_wasm.ArgumentError, match=message):
            call()


def test_state_must_stay_where_it_is() -> None:
    fn = on({"x": 2}, lambda a, b: (lax.all_gather(b, "x", tiled=True), a), (P(), P("x")), (P(), P()), check_vma=False)
    with pytest.raises(xla_wasm.ArgumentError, match="but the result|sharded otherwise"):
        xla_wasm.compile(lower(fn, X[:2], X), xla_wasm.Options(state=(("b", "0"),)))


BY_HAND = r"""HloModule m, num_partitions=1,
  frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=2]>, four = #sdy.mesh<[\"x\"=4]>}"}

ENTRY e {
  p = f32[4]{0} parameter(0)
  in = f32[2]{0} custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape",
    frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>"}
  inside = f32[2]{0} negate(in)
  out = f32[4]{0} custom-call(inside), custom_call_target="xla.sdy.LocalToGlobalShape",
    frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>"}
  ROOT outside = f32[4]{0} negate(out)
}
"""


def test_by_hand() -> None:
    array = np.arange(4, dtype=np.float32)
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(BY_HAND)))
    np.testing.assert_array_equal(exe.run_global([array])[0], array)


def test_by_hand_on_replicas() -> None:
    """Each of which has all partitions."""
    array = np.arange(4, dtype=np.float32)
    own = per_device(Module.from_text(BY_HAND.replace("num_partitions=1", "num_partitions=1, replica_count=2")))
    assert own.parameters == own.results == [Shards((4,), (2,), ((0,), (2,), (0,), (2,)))]
    np.testing.assert_array_equal(
        xla_wasm.load(xla_wasm.compile(own.module)).run_replicated([[array[:2]], [array[2:]]] * 2)[3][0], array[2:]
    )


def test_by_hand_scalars_beside_arrays() -> None:
    """The bounds of a clamp, which JAX would broadcast."""
    scalars = "low = f32[] constant(1)\n  high = f32[] constant(2)\n  ROOT outside = f32[4]{0} clamp(low, out, high)"
    exe = xla_wasm.load(
        xla_wasm.compile(Module.from_text(BY_HAND.replace("ROOT outside = f32[4]{0} negate(out)", scalars)))
    )
    np.testing.assert_array_equal(exe.run_global([-np.arange(4, dtype=np.float32)])[0], [1, 1, 2, 2])


def test_by_hand_what_a_called_computation_waits_for() -> None:
    called = """c {
  a = f32[2]{0} parameter(0)
  first = f32[2]{0} negate(a)
  ROOT second = f32[2]{0} abs(a), control-predecessors={first}
}

ENTRY"""
    text = BY_HAND.replace("ENTRY", called).replace("f32[2]{0} negate(in)", "f32[2]{0} call(in), to_apply=c")
    made = per_device(Module.from_text(text)).module
    assert [
        (x.name, [p.name for p in x.control_predecessors]) for x in made.instructions() if x.control_predecessors
    ] == [("second", ["first"])]


BEFORE_SHARDY = """HloModule m

ENTRY e {
  p = f32[4]{0} parameter(0)
  cut = f32[4]{0} custom-call(p), custom_call_target="Sharding", sharding={devices=[2]0,1}
  in = f32[2]{0} custom-call(cut), custom_call_target="SPMDFullToShardShape", sharding={manual}
  inside = f32[2]{0} negate(in)
  kept = f32[2]{0} custom-call(inside), custom_call_target="Sharding", sharding={manual}
  out = f32[4]{0} custom-call(kept), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]0,1}
  ROOT t = (f32[4]{0}) tuple(out), sharding={{replicated}}
}
"""


def test_by_hand_a_result_that_older_modules_call_replicated() -> None:
    """They say so of what nobody asked for."""
    assert per_device(Module.from_text(BEFORE_SHARDY)).results == [Shards((4,), (2,), ((0,), (2,)))]


def test_by_hand_with_aliases() -> None:
    """A result may take the place of a parameter of which it is the same block; a donated parameter stays that."""
    text = BY_HAND.replace(
        "num_partitions=1", "num_partitions=1, input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (0, {}) }"
    )
    made = per_device(Module.from_text(text)).module
    assert made.input_output_alias == [((), 0, (), "may-alias")] and made.buffer_donor == [(0, ())]
    whole = """all = f32[4]{0} custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape",
    frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{}]>]>"}
  first = f32[2]{0} slice(all), slice={[0:2]}
  inside = f32[2]{0} add(in, first)"""
    made = per_device(Module.from_text(text.replace("inside = f32[2]{0} negate(in)", whole))).module
    assert made.input_output_alias == [] and made.buffer_donor == [(0, ())]


@pytest.mark.parametrize(
    ("before", "after", "count", "message"),
    [
        (
            "f32[4]",
            "f32[3]",
            -1,
            "custom-call 'in': dimension 0 of size 3 does not divide into 2 equal shards: uneven shards are not "
            "supported",
        ),
        ("f32[2]", "f32[4]", -1, r"custom-call 'in': the shards of \[4\] are \[2\], the program says f32\[4\]"),
        ("p = f32[4]", "p = f32[<=4]", 1, "arrays with dynamic dimensions cannot be cut"),
        ("num_partitions=1", "num_partitions=4", 1, "'m' has 4 partitions, its manual computations are for 2 devices"),
        ("per_value<[<@mesh", "per_value<[<@four", 1, "custom-call 'in' is for 4 devices, custom-call 'out' for 2"),
        ("per_value<[<@mesh", "per_value<[<@other", 1, "names the mesh 'other', which the module does not have"),
        ("xla.sdy.in_shardings", "xla.sdy.other", 1, "custom-call 'in': xla.sdy.GlobalToLocalShape without a sharding"),
        (
            r"{\"x\"}]>",
            r"{}], unreduced={\"x\"}>",
            1,
            "custom-call 'in': a sharding of kind 'unreduced' is not supported",
        ),
        (
            "outside = f32[4]{0} negate(out)",
            "outside = u32[] partition-id()",
            1,
            "stands outside of the manual computations",
        ),
    ],
)
def test_by_hand_what_is_refused(before: str, after: str, count: int, message: str) -> None:
    with pytest.raises(xla_wasm.UnsupportedError, match=message):
        xla_wasm.compile(Module.from_text(BY_HAND.replace(before, after, count)))


# --- xla_wasm.jax, the document and the example
# -------------------------------------------------------------------------


def test_one_line() -> None:
    def step(params: Any, x: Any) -> Any:
        return {"y": x @ params["w"], "total": lax.psum(x.sum(), "d")}

    module = lower(step, {"w": X.T}, X, mesh={"d": 4}, in_specs=(P(), P("d")), out_specs={"y": P("d"), "total": P()})
    exe = xla_wasm.load(xla_wasm.compile(module))
    assert [p.name for p in exe.parameters] == ["params.w", "x"] and [r.name for r in exe.results] == ["total", "y"]
    total, y = exe.run_global([X.T, X])
    np.testing.assert_allclose(y, X @ X.T, rtol=1e-6)
    assert total == X.sum() and module.num_partitions == 4


def test_shard_map_inside_finds_the_mesh() -> None:
    def fn(a: Any) -> Any:
        return jax.shard_map(sum_rows, in_specs=P("x", "y"), out_specs=P("x", None))(a) * 2

    for given in (GRID, mesh(**GRID), devices(**GRID)):
        exe = xla_wasm.load(xla_wasm.compile(lower(fn, X, mesh=given)))
        np.testing.assert_array_equal(exe.run_global([X])[0], 2 * (X[:, :4] + X[:, 4:]))


def test_the_document() -> None:
    """The Python of docs/replicas.md runs as it is written."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "replicas.md").read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert names["loss"] == 1 and len(names["results"]) == 4
    for w, loss in names["results"]:
        np.testing.assert_allclose(w, np.full((3, 1), 0.28), rtol=1e-6)
        np.testing.assert_allclose(loss, 0.16, rtol=1e-6)


@pytest.mark.parametrize("count", ["2", "5"])
def test_the_example(count: str) -> None:
    """examples/data_parallel.py checks itself that the losses are those of one device."""
    said = output([sys.executable, ROOT / "examples" / "data_parallel.py", count])
    assert f"loss on {count} devices" in said and "of the images it was trained on are right" in said
