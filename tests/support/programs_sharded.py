"""Whole programs on several devices, as they are written with jax.shard_map and jax.pmap. Every one has fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, nn
from jax.sharding import PartitionSpec as P

from tests.support.programs import Random, Tree, block_params, cnn_loss, cnn_params, layer_norm

Mesh = Any


@dataclass(frozen=True)
class Sharded:
    """A function of the mesh that makes the program on whole arrays, its arguments, and the sizes of the mesh's
    axes."""

    make: Callable[[Mesh], Callable[..., Any]]
    args: tuple[Any, ...]
    axes: Mapping[str, int]
    alone: Callable[..., Any] | None = field(default=None, kw_only=True)
    """The same on one device."""


PROGRAMS: dict[str, Callable[[], Sharded]] = {}


def program(make: Callable[[], Sharded]) -> Callable[[], Sharded]:
    """Lists a program under the name of the function that makes it."""
    PROGRAMS[make.__name__] = make
    return make


def mapped(
    fn: Callable[..., Any], in_specs: Any, out_specs: Any, **options: Any
) -> Callable[[Mesh], Callable[..., Any]]:
    """`fn` as what each device of the mesh does."""
    return lambda mesh: jax.shard_map(fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


# Every collective of JAX


def _collectives(axis: Any, count: int, a: Any, b: Any) -> Any:
    """`a` is f32[8n, 4] of each device, `b` s32[n, 3], n being the number of devices along the axis."""
    ring = [(i, (i + 1) % count) for i in range(count)]
    return {
        "psum": lax.psum(a, axis),
        "pmean": lax.pmean(a, axis),
        "pmax": lax.pmax(b, axis),
        "pmin": lax.pmin(a, axis),
        "all_gather": lax.all_gather(b, axis),
        "all_gather_tiled": lax.all_gather(a, axis, axis=1, tiled=True),
        "ppermute": lax.ppermute(a, axis, ring),
        "ppermute_some": lax.ppermute(b, axis, ring[: count // 2]),
        "all_to_all": lax.all_to_all(b, axis, 0, 1),
        "all_to_all_tiled": lax.all_to_all(a, axis, 0, 1, tiled=True),
        "psum_scatter": lax.psum_scatter(b, axis),
        "psum_scatter_tiled": lax.psum_scatter(a, axis, tiled=True),
        "axis_index": lax.axis_index(axis)[None],
        "product": jnp.prod(lax.all_gather(a, axis), 0),
    }


def _all_collectives(axes: Mapping[str, int], axis: Any) -> Sharded:
    """Over one axis of a mesh, or several; every device has arrays of its own and returns its own results."""
    size = int(np.prod(list(axes.values())))
    count = int(np.prod([axes[name] for name in ((axis,) if isinstance(axis, str) else axis)]))
    r = Random(size)
    a, b = r.normal(size, 2 * count, 4), r.integers(100, size, count, 3)
    everywhere = P(tuple(axes))

    def fn(a: Any, b: Any) -> Any:
        return jax.tree.map(lambda x: x[None], _collectives(axis, count, a[0], b[0]))

    return Sharded(mapped(fn, everywhere, everywhere, check_vma=False), (a, b), axes)


for _name, _axes, _axis in (
    ("collectives_2", {"x": 2}, "x"),
    ("collectives_4", {"x": 4}, "x"),
    ("collectives_8", {"x": 8}, "x"),
    ("collectives_2x4_rows", {"x": 2, "y": 4}, "x"),
    ("collectives_2x4_columns", {"x": 2, "y": 4}, "y"),
    ("collectives_2x4_all", {"x": 2, "y": 4}, ("x", "y")),
    ("collectives_2x2x2_two", {"x": 2, "y": 2, "z": 2}, ("z", "x")),
):
    PROGRAMS[_name] = partial(_all_collectives, _axes, _axis)


@program
def pmap_step() -> Sharded:
    r = Random(21)

    def fn(w: Any, x: Any, scale: Any) -> Any:
        y = jnp.tanh(x @ w) * scale
        return lax.pmean(y.sum(), "i"), lax.all_gather(y[0], "i"), lax.axis_index("i")

    # pmap makes its mesh itself, of all devices that the sizes of its arguments ask for.
    step = jax.pmap(fn, axis_name="i", in_axes=(None, 0, None), out_axes=(None, 0, 0))
    return Sharded(lambda mesh: step, (r.dense(6, 4), r.normal(4, 3, 6), np.float32(1.5)), {"i": 4})


# Sums of products over devices


@program
def matmul_2d() -> Sharded:
    """Blocks of both operands on a mesh of 2 x 4; the operands' parts are gathered along one axis each."""

    def fn(a: Any, b: Any) -> Any:
        return lax.all_gather(a, "y", axis=1, tiled=True) @ lax.all_gather(b, "x", axis=0, tiled=True)

    r = Random(22)
    return Sharded(
        mapped(fn, (P("x", "y"), P("x", "y")), P("x", "y")),
        (r.normal(8, 16), r.dense(16, 12)),
        {"x": 2, "y": 4},
        alone=jnp.matmul,
    )


@program
def matmul_in_a_ring() -> Sharded:
    """One operand's blocks go round while each device multiplies by the one that it has."""

    def fn(a: Any, b: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            block, result = state
            start = (lax.axis_index("x") - i) % 4 * block.shape[0]
            part = lax.dynamic_slice_in_dim(a, start, block.shape[0], 1) @ block
            return lax.ppermute(block, "x", [(j, (j + 1) % 4) for j in range(4)]), result + part

        return lax.fori_loop(0, 4, step, (b, lax.pcast(jnp.zeros((a.shape[0], b.shape[1])), "x", to="varying")))[1]

    r = Random(23)
    return Sharded(
        mapped(fn, (P("x", None), P("x", None)), P("x", None)),
        (r.normal(8, 16), r.dense(16, 8)),
        {"x": 4},
        alone=jnp.matmul,
    )


# Attention whose keys and values go round a ring


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    causal = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(jnp.where(causal, scores, -jnp.inf)), v)


def _ring_attention(count: int, q: Any, k: Any, v: Any) -> Any:
    """The softmax is put together block by block: its maximum so far, the sum and the weighted values below it."""
    batch, length, heads, width = q.shape
    me = lax.axis_index("s")
    places = me * length + jnp.arange(length)

    def step(state: Any, i: Any) -> Any:
        top, total, mixed, k, v = state
        keys = (me - i) % count * length + jnp.arange(length)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width)
        scores = jnp.where(places[:, None] >= keys, scores, -jnp.inf)
        new = jnp.maximum(top, scores.max(-1))
        weights = jnp.exp(scores - new[..., None])
        keep = jnp.exp(top - new)
        total = total * keep + weights.sum(-1)
        mixed = mixed * jnp.moveaxis(keep, 1, 2)[..., None] + jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        k, v = (lax.ppermute(x, "s", [(j, (j + 1) % count) for j in range(count)]) for x in (k, v))
        return (new, total, mixed, k, v), None

    varying = partial(lax.pcast, axis_name=("b", "s"), to="varying")
    start = (
        varying(jnp.full((batch, heads, length), -1e30)),
        varying(jnp.zeros((batch, heads, length))),
        varying(jnp.zeros(q.shape)),
        k,
        v,
    )
    (_, total, mixed, _, _), _ = lax.scan(step, start, jnp.arange(count))
    return mixed / jnp.moveaxis(total, 1, 2)[..., None]


@program
def ring_attention() -> Sharded:
    r = Random(24)
    specs = (P("b", "s"),) * 3
    args = tuple(r.normal(2, 16, 2, 8) for _ in range(3))
    return Sharded(mapped(partial(_ring_attention, 4), specs, P("b", "s")), args, {"b": 2, "s": 4}, alone=_attention)


@program
def ring_attention_gradient() -> Sharded:
    def make(mesh: Mesh) -> Any:
        attend = jax.shard_map(
            partial(_ring_attention, 4), mesh=mesh, in_specs=(P("b", "s"),) * 3, out_specs=P("b", "s")
        )

        def loss(q: Any, k: Any, v: Any, weights: Any) -> Any:
            def total(y: Any, w: Any) -> Any:
                return lax.psum((y * w).sum(), ("b", "s"))

            return jax.shard_map(total, mesh=mesh, in_specs=(P("b", "s"),) * 2, out_specs=P())(attend(q, k, v), weights)

        return jax.value_and_grad(loss, (0, 1, 2))

    def alone(q: Any, k: Any, v: Any, weights: Any) -> Any:
        return jax.value_and_grad(lambda *a: (_attention(*a) * weights).sum(), (0, 1, 2))(q, k, v)

    r = Random(25)
    return Sharded(make, tuple(r.normal(2, 8, 2, 4) for _ in range(4)), {"b": 2, "s": 4}, alone=alone)


# A transformer block, its heads and hidden units divided among devices


def _tensor_parallel(p: Tree, x: Any, count: int) -> Any:
    """Each device has some heads and some hidden units; two sums over the devices put their parts together."""
    batch, length, width = x.shape
    y = layer_norm(p["norm1"], x)
    q, k, v = (jnp.einsum("btw,whd->bthd", y, p[name]["w"]) + p[name]["b"] for name in ("q", "k", "v"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
    own = jnp.einsum("bthd,hdw->btw", mixed, p["out"]["w"])
    x = x + (lax.psum(own, "m") if count > 1 else own) + p["out"]["b"]
    hidden = nn.gelu(layer_norm(p["norm2"], x) @ p["up"]["w"] + p["up"]["b"])
    own = hidden @ p["down"]["w"]
    return x + (lax.psum(own, "m") if count > 1 else own) + p["down"]["b"]


def _tensor_parallel_params(r: Random, width: int, heads: int, hidden: int) -> tuple[Tree, Tree]:
    base = block_params(r, width, hidden)
    size = width // heads
    for name, w, b in zip("qkv", np.split(base["qkv"]["w"], 3, 1), np.split(base["qkv"]["b"], 3)):
        base[name] = {"w": w.reshape(width, heads, size), "b": b.reshape(heads, size)}
    base["out"]["w"] = base["out"]["w"].reshape(heads, size, width)
    del base["qkv"]
    specs: Tree = jax.tree.map(lambda _: P(), base)
    for name in "qkv":
        specs[name] = {"w": P(None, "m"), "b": P("m")}
    specs["out"]["w"], specs["down"]["w"] = P("m"), P("m")
    specs["up"] = {"w": P(None, "m"), "b": P("m")}
    return base, specs


def _tensor_parallel_gradient(axes: Mapping[str, int], seed: int) -> Sharded:
    r = Random(seed)
    params, specs = _tensor_parallel_params(r, 16, 4, 32)

    def step(params: Tree, x: Any, wanted: Any) -> Any:
        def loss(params: Tree) -> Any:
            return lax.pmean(jnp.mean((_tensor_parallel(params, x, axes["m"]) - wanted) ** 2), "d")

        return jax.value_and_grad(loss)(params)

    def alone(params: Tree, x: Any, wanted: Any) -> Any:
        return jax.value_and_grad(lambda p: jnp.mean((_tensor_parallel(p, x, 1) - wanted) ** 2))(params)

    args = (params, r.normal(4, 6, 16), r.normal(4, 6, 16))
    return Sharded(mapped(step, (specs, P("d"), P("d")), (P(), specs)), args, axes, alone=alone)


PROGRAMS["tensor_parallel_gradient_2x4"] = partial(_tensor_parallel_gradient, {"d": 2, "m": 4}, 26)
PROGRAMS["tensor_parallel_gradient_1x2"] = partial(_tensor_parallel_gradient, {"d": 1, "m": 2}, 27)


# Stages in a pipeline


@program
def pipeline() -> Sharded:
    """Each device is a layer; microbatches move from one to the next."""
    stages, batches, width = 4, 6, 8

    def layer(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w)

    def fn(w: Any, xs: Any) -> Any:
        me = lax.axis_index("p")
        varying = partial(lax.pcast, axis_name="p", to="varying")

        def tick(state: Any, t: Any) -> Any:
            x, results = state
            x = jnp.where(me == 0, xs[jnp.minimum(t, batches - 1)], x)
            y = layer(w[0], x)
            done = t - (stages - 1)
            results = jnp.where((me == stages - 1) & (done >= 0), results.at[jnp.maximum(done, 0)].set(y), results)
            return (lax.ppermute(y, "p", [(i, i + 1) for i in range(stages - 1)]), results), None

        start = (varying(jnp.zeros(xs.shape[1:])), varying(jnp.zeros(xs.shape)))
        (_, results), _ = lax.scan(tick, start, jnp.arange(batches + stages - 1))
        return lax.psum(jnp.where(me == stages - 1, results, 0), "p")

    def alone(w: Any, xs: Any) -> Any:
        for i in range(stages):
            xs = layer(w[i], xs)
        return xs

    r = Random(28)
    args = (r.dense(stages, width, width), r.normal(batches, 3, width))
    return Sharded(mapped(fn, (P("p"), P()), P()), args, {"p": stages}, alone=alone)


# Experts on devices of their own, to which tokens travel


@program
def mixture_of_experts() -> Sharded:
    experts, room, width = 4, 6, 8

    def dispatch(x: Any, gate: Any) -> Any:
        choice = jnp.argmax(x @ gate, -1)
        place = jnp.cumsum(nn.one_hot(choice, experts, dtype=jnp.int32), 0)[jnp.arange(len(x)), choice] - 1
        return (
            nn.one_hot(choice, experts)[..., None]
            * nn.one_hot(place, room)[:, None]
            * nn.softmax(x @ gate).max(-1)[:, None, None]
        )

    def fn(x: Any, gate: Any, w: Any) -> Any:
        mask = dispatch(x, gate)
        sent = lax.all_to_all(jnp.einsum("tw,ter->erw", x, (mask > 0).astype(x.dtype)), "e", 0, 0)
        done = nn.relu(sent @ w[0])
        return jnp.einsum("erw,ter->tw", lax.all_to_all(done, "e", 0, 0), mask)

    def alone(x: Any, gate: Any, w: Any) -> Any:
        def part(x: Any) -> Any:
            mask = dispatch(x, gate)
            done = nn.relu(jnp.einsum("erw,ewv->erv", jnp.einsum("tw,ter->erw", x, (mask > 0).astype(x.dtype)), w))
            return jnp.einsum("erw,ter->tw", done, mask)

        return jnp.concatenate([part(p) for p in jnp.split(x, experts)])

    r = Random(29)
    args = (r.normal(40, width), r.dense(width, experts), r.dense(experts, width, width))
    return Sharded(mapped(fn, (P("e"), P(), P("e")), P("e")), args, {"e": experts}, alone=alone)


@program
def heat_with_halos() -> Sharded:
    """A grid on a mesh of 2 x 4 whose devices exchange their borders in each step."""

    def fn(u: Any) -> Any:
        def border(x: Any, axis: str, count: int) -> Any:
            return lax.ppermute(x, axis, [(i, (i + 1) % count) for i in range(count)])

        def back(x: Any, axis: str, count: int) -> Any:
            return lax.ppermute(x, axis, [((i + 1) % count, i) for i in range(count)])

        def step(_: Any, u: Any) -> Any:
            wide = jnp.concatenate([border(u[-1:], "x", 2), u, back(u[:1], "x", 2)], 0)
            tall = jnp.concatenate([border(u[:, -1:], "y", 4), u, back(u[:, :1], "y", 4)], 1)
            return u + 0.1 * (wide[:-2] + wide[2:] + tall[:, :-2] + tall[:, 2:] - 4 * u)

        return lax.fori_loop(0, 10, step, u)

    def alone(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)

        return lax.fori_loop(0, 10, step, u)

    return Sharded(mapped(fn, P("x", "y"), P("x", "y")), (Random(30).normal(8, 16),), {"x": 2, "y": 4}, alone=alone)


# Training


@program
def data_parallel_adam() -> Sharded:
    """Four steps of Adam in one program, the images of each divided among the devices."""
    optimizer = optax.adam(1e-2)

    def steps(mean: Callable[[Any], Any]) -> Callable[..., Any]:
        def fn(params: Tree, images: Any, labels: Any) -> Any:
            def step(state: Any, batch: Any) -> Any:
                params, moments = state
                loss, grads = jax.value_and_grad(lambda p: mean(cnn_loss(p, *batch)))(params)
                updates, moments = optimizer.update(grads, moments)
                return (optax.apply_updates(params, updates), moments), loss

            (params, _), losses = lax.scan(step, (params, optimizer.init(params)), (images, labels))
            return params, losses

        return fn

    r = Random(31)
    args = (cnn_params(r), np.abs(r.normal(4, 8, 8, 8, 1)), r.integers(10, 4, 8))
    sharded = mapped(steps(lambda loss: lax.pmean(loss, "b")), (P(), P(None, "b"), P(None, "b")), P())
    return Sharded(sharded, args, {"b": 4}, alone=steps(lambda loss: loss))


@program
def fully_sharded_sgd() -> Sharded:
    """Every device keeps a part of each weight, gathers the whole for a step, and gets its part of the gradient's
    sum."""

    def loss(w: Any, v: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w) @ v - y) ** 2)

    def fn(w: Any, v: Any, x: Any, y: Any) -> Any:
        def own(w: Any, v: Any) -> Any:
            return lax.pmean(
                loss(lax.all_gather(w, "f", tiled=True), lax.all_gather(v, "f", axis=1, tiled=True), x, y), "f"
            )

        value, (dw, dv) = jax.value_and_grad(own, (0, 1))(w, v)
        return value, w - 0.1 * dw, v - 0.1 * dv

    def alone(w: Any, v: Any, x: Any, y: Any) -> Any:
        value, (dw, dv) = jax.value_and_grad(loss, (0, 1))(w, v, x, y)
        return value, w - 0.1 * dw, v - 0.1 * dv

    r = Random(32)
    args = (r.dense(16, 24), r.dense(24, 8), r.normal(16, 16), r.normal(16, 8))
    return Sharded(
        mapped(fn, (P("f"), P(None, "f"), P("f"), P("f")), (P(), P("f"), P(None, "f"))), args, {"f": 8}, alone=alone
    )


# What stands between and around manual computations


@program
def several_in_a_row() -> Sharded:
    """Elementwise operations on shards, on whole arrays, and on both, between three manual computations."""

    def make(mesh: Mesh) -> Any:
        product = jax.shard_map(
            lambda a, b: lax.psum(a @ b, "y"), mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None)
        )
        shift = jax.shard_map(
            lambda a: lax.ppermute(a, "x", [(0, 1), (1, 0)]), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")
        )
        total = jax.shard_map(lambda a: lax.psum(a.sum(0), "x"), mesh=mesh, in_specs=P("x", None), out_specs=P())

        def fn(a: Any, b: Any, bias: Any) -> Any:
            y = jnp.tanh(product(shift(2 * a), b) + bias) * jnp.arange(8, dtype=jnp.float32)
            return {"total": total(y) + bias, "rows": jnp.where(y > 0, y, -y).T, "norm": jnp.sqrt(jnp.sum(bias**2))}

        return fn

    r = Random(33)
    return Sharded(make, (r.normal(6, 8), r.dense(8, 8), r.normal(8)), {"x": 2, "y": 2})


@program
def loop_outside() -> Sharded:
    """A scan and a branch around a manual computation."""

    def make(mesh: Mesh) -> Any:
        def own(w: Any, x: Any) -> Any:
            return lax.pmean(x @ w, "x"), jnp.tanh(x)

        step = jax.shard_map(own, mesh=mesh, in_specs=(P(), P("x", None)), out_specs=(P(), P("x", None)))

        def fn(w: Any, xs: Any, twice: Any) -> Any:
            def body(carry: Any, x: Any) -> Any:
                mean, y = step(w, carry + x)
                y = lax.cond(twice, lambda y: 2 * y, lambda y: y + 1, y)
                return y, mean.sum()

            return lax.scan(body, jnp.zeros(xs.shape[1:]), xs)

        return fn

    r = Random(34)
    return Sharded(make, (r.dense(8, 4), r.normal(5, 4, 8), np.bool_(True)), {"x": 4})


@program
def nested() -> Sharded:
    """A manual computation over one axis inside of one over the other, and one that leaves an axis to the compiler."""

    def make(mesh: Mesh) -> Any:
        def inner(b: Any) -> Any:
            return lax.psum(b * lax.axis_index("y").astype(b.dtype), "y")

        def outer(a: Any) -> Any:
            y = jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"})(a)
            return lax.psum(y, "x") * 2 + a[:, :2]

        both = jax.shard_map(outer, mesh=mesh, in_specs=P("x", None), out_specs=P("x", None), axis_names={"x"})
        partly = jax.shard_map(
            lambda a: lax.all_gather(a, "x", tiled=True),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
            check_vma=False,
        )
        return lambda a, b: (both(a), partly(b))

    r = Random(35)
    return Sharded(make, (r.normal(4, 8), r.normal(6, 2)), {"x": 2, "y": 4})
