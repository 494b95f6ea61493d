"""Modules of one device that XLA's partitioner has made, as JAX has them and as XLA dumps them, against XLA:CPU's
devices."""

from __future__ import annotations

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
from tests.support.closeness import allclose, assert_all
from tests.support.sharded_programs import Array, devices, divided, joined
from xla_wasm.hlo.ir import Module
from xla_wasm.passes.manual import is_partitioned, per_device

GRID = {"x": 2, "y": 2}
X = np.arange(32, dtype=np.float32).reshape(4, 8)


def sum_rows(a: Any) -> Any:
    return lax.psum(a, "y")


def automatic(a: Any) -> Any:
    """Returns results that only a partitioner can divide."""
    y = jnp.tanh(a @ a.T)
    return y, jnp.sort(a, 0), jnp.roll(y, 1, 0).sum()


@cache
def dumps(folder: Any) -> tuple[dict[str, tuple[Module, Module]], list[list[Array]]]:
    """Returns the modules that XLA dumps on its way, read from protos and from text, by stage; and its results."""
    real = devices(**GRID)
    both = jax.shard_map(sum_rows, mesh=real, in_specs=P("x", "y"), out_specs=P("x", None))
    found = {}
    options = {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_pass_re": "spmd.*",
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_as_proto": True,
    }
    results = []
    for name, fn in (("automatic", automatic), ("manual", both)):
        compiled = (
            jax.jit(fn, in_shardings=NamedSharding(real, P("x", "y"))).lower(X / 10).compile(compiler_options=options)
        )
        results.append([np.asarray(leaf) for leaf in jax.tree.leaves(compiled(X / 10))])
        for path in sorted(folder.glob("*.hlo.pb")):
            for stage in (
                "before_optimizations",
                "before_spmd-partitioning",
                "after_spmd-partitioning",
                "cpu_after_optimizations",
            ):
                if stage in path.name:
                    text = path.with_name(path.name.replace(".hlo.pb", ".txt"))
                    found[f"{name} {stage}"] = Module.from_proto(path.read_bytes()), Module.from_text(text.read_text())
        for path in folder.iterdir():
            path.unlink()
    return found, results


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return dumps(tmp_path_factory.mktemp("dumps"))


@pytest.mark.parametrize("stage", ["after_spmd-partitioning", "cpu_after_optimizations"])
@pytest.mark.parametrize("name", ["automatic", "manual"])
def test_dumps_after_the_partitioner(dumped: Any, name: str, stage: str) -> None:
    found, results = dumped
    proto, text = found[f"{name} {stage}"]
    wanted = results[name == "manual"]
    assert is_partitioned(proto) and is_partitioned(text)
    assert_all(xla_wasm.load(xla_wasm.compile(proto)).run_global([X / 10]), wanted, allclose(1e-05, 1e-06))
    # Text does not say how results are sharded.
    exe, own = xla_wasm.load(xla_wasm.compile(text)), per_device(proto)
    results = joined(exe.run_replicated(divided([X / 10], per_device(text).parameters, 4)), own.results)
    assert_all(results, wanted, allclose(1e-05, 1e-06))
    with pytest.raises(xla_wasm.ArgumentError, match="does not say which part of a global array result"):
        exe.run_global([X / 10])


@pytest.mark.parametrize("stage", ["before_optimizations", "before_spmd-partitioning"])
def test_dumps_before_the_partitioner(dumped: Any, stage: str) -> None:
    found, results = dumped
    for module in found[f"manual {stage}"]:
        assert not is_partitioned(module)
        np.testing.assert_allclose(
            xla_wasm.load(xla_wasm.compile(module)).run_global([X / 10])[0], results[1][0], rtol=1e-6
        )
    for module in found[f"automatic {stage}"]:
        assert not is_partitioned(module) and module.num_partitions == 4
        exe = xla_wasm.load(xla_wasm.compile(module))
        assert_all(exe.run(X / 10), results[0], allclose(1e-05, 1e-06))
        with pytest.raises(
            xla_wasm.UnsupportedError, match=r"runs on one device: .*XLA's partitioner would do.*jax.shard_map"
        ):
            exe.run_global([X / 10])
