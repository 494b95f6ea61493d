"""Operations between manual computations: each carried out on the blocks that a device holds, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import xla_wasm
from xla_wasm.jax import lower, mesh
from xla_wasm.passes.manual import per_device

X = np.arange(32, dtype=np.float32).reshape(4, 8)
W = np.arange(64, dtype=np.float32).reshape(8, 8) % 7


def cut(v: Any, spec: Any) -> Any:
    """The same value, of which each device has a block from here on."""
    return jax.shard_map(lambda block: block, mesh=mesh(x=2, y=2), in_specs=spec, out_specs=spec)(v)


def check(fn: Callable[[Any], Any], expected: Any) -> None:
    """`fn` gives this, of which no device has all."""
    module = lower(fn, X)
    (shards,) = per_device(module).results
    assert shards is not None and not shards.whole
    (result,) = xla_wasm.load(xla_wasm.compile(module)).run_global([X])
    np.testing.assert_array_equal(result, np.asarray(expected), strict=True)


ON_BLOCKS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda v: v * 2 + v,
    "scalars beside arrays": lambda v: lax.clamp(np.float32(3), v, np.float32(20)),
    "broadcast": lambda v: jnp.broadcast_to(v[None, :, None], (3, 4, 5, 8)),
    "reshape": lambda v: v.reshape(1, 4, 2, 1, 4),
    "transpose": lambda v: v.reshape(4, 2, 4).transpose(2, 0, 1),
    "reduce": lambda v: v.sum(1),
    "reduce of several": lambda v: jnp.argmax(v % 5, 1),
    "slice": lambda v: v[:, 2:7:2],
    "dynamic-slice": lambda v: lax.dynamic_slice(v, (0, v.shape[1] - 3), (4, 2)),
    "dynamic-update-slice": lambda v: lax.dynamic_update_slice(v, -v[:, :2], (0, 3)),
    "concatenate": lambda v: jnp.concatenate([v, -v], 1),
    "reverse": lambda v: v[:, ::-1],
    "sort": lambda v: jnp.sort(v % 5, 1),
    "pad": lambda v: jnp.pad(v, ((0, 0), (1, 2)), constant_values=7),
    "dot, of the left side": lambda v: v @ W,
    "dot, of the right side": lambda v: lax.dot_general(W, v, (((1,), (1,)), ((), ()))),
    "convolution, of the kernel's features": lambda v: lax.conv_general_dilated(
        X.reshape(1, 8, 4), v[:, :, None], (1,), "VALID"
    ),
    "dot, of both in a batch": lambda v: jnp.einsum("bi,bi->b", v, v + 1),
}


@pytest.mark.parametrize("name", ON_BLOCKS)
def test_each_element_by_itself(name: str) -> None:
    """Rows lie on different devices, and what is done is done to each."""
    fn = ON_BLOCKS[name]
    check(lambda a: fn(cut(a, P("x"))), fn(X))


ON_ALL: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reduce": (lambda v: v.sum(0), "reduce"),
    "slice": (lambda v: v[:3], "slice"),
    "dynamic-slice": (lambda v: lax.dynamic_slice(v, (1, 0), (2, 8)), "slice"),
    "dynamic-update-slice": (lambda v: lax.dynamic_update_slice(v, -v[:2], (1, 0)), "slice"),
    "concatenate": (lambda v: jnp.concatenate([v, v], 0), "concatenate"),
    "sort": (lambda v: jnp.sort(v, 0), "sort"),
    "pad": (lambda v: jnp.pad(v, ((1, 0), (0, 0))), "pad"),
    "dot": (lambda v: W[:, :4] @ v, "dot"),
    "convolution in groups": (
        lambda v: lax.conv_general_dilated(X.reshape(1, 16, 2), v[:, :, None], (1,), "VALID", feature_group_count=2),
        "convolution",
    ),
}


@pytest.mark.parametrize("name", ON_ALL)
def test_what_depends_on_the_rows_of_others(name: str) -> None:
    fn, opcode = ON_ALL[name]
    with pytest.raises(
        xla_wasm.UnsupportedError, match=f"{opcode}.* needs XLA's partitioner: dimension 0 of an operand is sharded"
    ):
        xla_wasm.compile(lower(lambda a: fn(cut(a, P("x"))), X))


@pytest.mark.parametrize("spec", [P("x"), P("x", "y"), P(None, "y")], ids=str)
def test_a_block_of_a_broadcast(spec: Any) -> None:
    """A broadcast gives blocks whether or not its operand has to be cut too."""
    check(lambda a: cut(jnp.broadcast_to(a[1], (4, 8)), spec), np.broadcast_to(X[1], (4, 8)))


@pytest.mark.parametrize("bound", [-1, 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_branches_of_which_one_has_blocks(bound: int, swapped: bool) -> None:
    """The result has blocks, whichever is taken."""
    branches = [lambda v: cut(v, P("x")), lambda v: 2 * v]
    first, second = branches[::-1] if swapped else branches
    check(lambda a: lax.cond(a[0, 0] > bound, first, second, a), 2 * X if (bound < 0) == swapped else X)


def test_a_manual_computation_in_another() -> None:
    """Blocks of blocks."""

    def outer(v: Any) -> Any:
        inner = jax.shard_map(
            lambda u: u + lax.axis_index("y"), in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )
        return inner(v) + 10 * lax.axis_index("x")

    both = jax.shard_map(outer, mesh=mesh(x=2, y=2), in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    check(both, X + 10 * (np.arange(4, dtype=np.float32)[:, None] // 2) + np.arange(8, dtype=np.float32) // 4)
