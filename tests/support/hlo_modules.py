"""HLO modules for the tests of reading, writing and printing: lowered by JAX, compiled by XLA, and hand-written in HLO
text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib import _hlo

F32 = np.float32


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, F32)


def lowered(function: Any, *args: Any) -> bytes:
    return jax.jit(function).lower(*args).compiler_ir("hlo").as_serialized_hlo_module_proto()


def from_text(text: str) -> bytes:
    """The proto that XLA makes of HLO text."""
    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def as_text(proto: bytes, metadata: bool = True) -> str:
    """The text that XLA makes of a proto, constants and all."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = metadata
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)


def blocks(text: str) -> list[str]:
    """The computations of a module, in an order that does not depend on ids, without the numbering of stack frames."""
    text = text[text.index("\n\n%") if "\n\n%" in text else text.index("ENTRY") - 2 :]
    return [text.split("\n")[0], *sorted(text.split("\n\n"))]


def without_frames(text: str) -> str:
    """Returns the text without the numbering of stack frames."""
    return re.sub(r" ?stack_frame_id=\d+", "", text)


def _convolution(x: Any, w: Any) -> Any:
    y = lax.conv_general_dilated(
        x, w, (1, 1), "SAME", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    z = lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2 + jnp.asarray(np.arange(4, dtype=F32))), (0, y)
    )[1]
    return jnp.sort(z.reshape(-1)), z[0, 0, 0, jnp.array([0, 1])], jnp.argmax(z)


def _mixture(x: Any, i: Any) -> Any:
    square = jnp.linalg.cholesky(x @ x.T + jnp.eye(4) * 9)
    return (
        jnp.fft.rfft(x),
        lax.linalg.triangular_solve(square, x, left_side=True, lower=True),
        lax.cond(i > 0, lambda t: t + 1, lambda t: t - 1, x),
        lax.switch(i, [lambda t: t, lambda t: t * 2, lambda t: t * 3], x),
        lax.pad(x, 0.0, ((1, 2, 1), (-1, 0, 0))),
        lax.dynamic_slice(x, (i, i), (2, 2)),
        lax.dynamic_update_slice(x, x[:1], (i, 0)),
        x.at[jnp.array([1, 2])].add(3.0),
        lax.top_k(x, 2),
        x[::2, 1:3],
        jnp.flip(x),
        lax.reduce_precision(x, 5, 10),
        x.astype(jnp.bfloat16),
        x.astype(jnp.float8_e4m3fn),
    )


def _constants(x: Any) -> Any:
    return (
        x + np.array([[1, -2], [3, 4]], np.int32),
        np.arange(-8, 8, dtype=np.int32),
        np.array([True, False]),
        jnp.asarray(np.arange(-8, 8), dtype=jnp.int4),
        np.array([1 + 2j, 3 - 4j], np.complex64),
        jnp.asarray([0.1, 0.2, np.inf, np.nan], jnp.bfloat16),
        jnp.asarray([0.1, -3, 8], jnp.float8_e4m3fn),
        np.array([1, 2**31], np.uint32),
        np.zeros((2, 0), F32),
        np.array([0.1, 1e-30, 3e38, 1 / 3], F32),
        np.array([1, -1], np.int8),
        np.array([1.5, 65504], np.float16),
        np.arange(24, dtype=F32).reshape(2, 3, 4),
    )


def _gradient(x: Any, w: Any) -> Any:
    return jax.grad(lambda x, w: (jax.nn.softmax(jnp.tanh(x @ w)) ** 2).sum(), (0, 1))(x, w)


def _lowering() -> dict[str, Callable[[], bytes]]:
    """Returns the functions that make the modules that JAX hands over, by name."""
    conv_dims = ("NHWC", "HWIO", "NHWC")
    pooled = jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum())
    convolved = jax.grad(
        lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=conv_dims).sum(), (0, 1)
    )
    collective = jax.pmap(lambda x: (lax.pmean(x, "i"), lax.all_gather(x, "i"), lax.ppermute(x, "i", [(0, 0)])), "i")
    donating = jax.jit(lambda a, b: (a + b, b), donate_argnums=0)
    return {
        "convolution": lambda: lowered(_convolution, zeros(1, 4, 4, 3), zeros(3, 3, 3, 4)),
        "mixture": lambda: lowered(_mixture, zeros(4, 4), 1),
        "gradient": lambda: lowered(_gradient, zeros(3, 4), zeros(4, 5)),
        "random": lambda: lowered(lambda k: (jax.random.normal(k, (3,)), jax.random.bits(k, (5,))), jax.random.key(0)),
        "constants": lambda: lowered(_constants, np.zeros((2, 2), np.int32)),
        "convolution gradient": lambda: lowered(convolved, zeros(1, 8, 8, 3), zeros(3, 3, 3, 4)),
        "pool gradient": lambda: lowered(pooled, zeros(4, 4)),
        "scan": lambda: lowered(lambda x: lax.scan(lambda c, t: (c + t, c * t), zeros(3), x), zeros(5, 3)),
        "einsum": lambda: lowered(
            lambda a, b: jnp.einsum("bij,bjk->bik", a, b, precision="highest"), zeros(2, 3, 4), zeros(2, 4, 5)
        ),
        "qr": lambda: lowered(jnp.linalg.qr, zeros(4, 4)),
        "donated": lambda: donating.lower(zeros(4), zeros(4)).compiler_ir("hlo").as_serialized_hlo_module_proto(),
        "collectives": lambda: collective.lower(zeros(1, 4)).compiler_ir("hlo").as_serialized_hlo_module_proto(),
    }


@cache
def lowered_modules() -> dict[str, bytes]:
    """Modules as JAX hands them over."""
    return {name: make() for name, make in _lowering().items()}


_COMPILED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "convolution": (_convolution, (zeros(1, 4, 4, 3), zeros(3, 3, 3, 4))),
    "mixture": (_mixture, (zeros(4, 4), 1)),
}


@cache
def compiled_modules() -> dict[str, bytes]:
    """Modules after XLA's optimizations for the CPU: scheduled, with fusions and explicit layouts."""
    out = {}
    for name, (function, args) in _COMPILED.items():
        executable = jax.jit(function).lower(*args).compile().runtime_executable()
        out[name] = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    return out


_ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""

TEXTS: dict[str, str] = {
    "collectives": """HloModule m, replica_count=4
"""
    + _ADD
    + """
ENTRY e {
  p = f32[4,8]{1,0} parameter(0), parameter_replication={true}
  r = f32[4,8]{1,0} all-reduce(p), replica_groups={{0,1},{2,3}}, channel_id=3, use_global_device_ids=true, to_apply=add
  i = f32[4,8]{1,0} all-reduce(r), replica_groups=[2,2]<=[2,2]T(1,0), channel_id=4, use_global_device_ids=true, to_apply=add
  x = f32[4,8]{1,0} all-reduce(i), replica_groups=mesh['x'=2,'y'=2] {'x'}, channel_id=5, use_global_device_ids=true, to_apply=add
  y = f32[4,8]{1,0} all-reduce(x), replica_groups=mesh['x'=4] {'x':(2)2}, channel_id=6, use_global_device_ids=true, to_apply=add
  g = f32[8,8]{1,0} all-gather(y), dimensions={0}, replica_groups={{0,1},{2,3}}
  s = f32[4,8]{1,0} reduce-scatter(g), dimensions={0}, replica_groups={{0,1},{2,3}}, to_apply=add
  t = f32[4,8]{1,0} all-to-all(s), dimensions={0}, replica_groups={{0,1},{2,3}}
  c = f32[4,8]{1,0} collective-permute(t), source_target_pairs={{0,1},{1,0}}, channel_id=9
  b = f32[4,8]{1,0} collective-broadcast(c), replica_groups={{0,1}}
  n = u32[] replica-id()
  o = u32[] partition-id()
  ROOT z = (f32[4,8]{1,0}, u32[], u32[]) tuple(b, n, o)
}
""",  # noqa: E501
    "calls": """HloModule m
"""
    + _ADD
    + """
fn {
  a = f32[4,4]{1,0} parameter(0)
  ROOT b = f32[4,4]{1,0} negate(a)
}
ENTRY e {
  p = f32[4,4]{1,0} parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  q = f32[4,4]{0,1} parameter(1), sharding={replicated}
  k = (f32[4,4]{1,0}, s32[2]{0}) custom-call(p, q), custom_call_target="some \\"thing\\"",
    operand_layout_constraints={f32[4,4]{1,0}, f32[4,4]{0,1}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{0}: (0, {})},
    api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i32},
    frontend_attributes={u="v",w={"x":1}}, metadata={op_type="t" op_name="n\\"m" source_file="f.py" source_line=7}
  l = f32[4,4]{1,0} get-tuple-element(k), index=0, control-predecessors={q}
  j = f32[4,4]{1,0} custom-call(l), custom_call_target="c", called_computations={add}, schedule=SCHEDULE_EARLIEST, backend_config="plain"
  t = f32[4,4]{1,0} triangular-solve(j, p), left_side=true, unit_diagonal=true, transpose_a=ADJOINT
  h = f32[4,4]{1,0} cholesky(t), lower=true
  u = f32[4,4]{1,0} sine(h), result_accuracy={tolerance={atol=0.5,rtol=0.25,ulps=3}}
  v = f32[4,4]{1,0} tanh(u), result_accuracy={mode=highest}
  f = f32[4,4]{1,0} call(v), to_apply=fn, is_composite=true, frontend_attributes={composite.name="a.b",composite.version="1"}
  d = f32[4,4]{1,0} domain(f), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}
  z = f32[] constant(-0.0)
  ROOT m = f32[4]{0} reduce(d, z), dimensions={1}, to_apply=add
}
""",  # noqa: E501
    "literals": """HloModule m
ENTRY e {
  a = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}})
  b = s4[3]{0} constant({-8,-1,7})
  c = u2[3]{0} constant({0,3,1})
  d = f8e5m2[4]{0} constant({nan,-inf,1.5,-0.0})
  f = f32[3]{0} constant({nan,-nan,nan(0x123)})
  g = (f32[], s32[2]{0}) constant((1.5, {1, 2}))
  h = pred[] constant(true)
  i = f4e2m1fn[3]{0} constant({-2,0.5,6})
  j = u64[2]{0} constant({18446744073709551615, 1})
  k = s64[1]{0} constant({-9223372036854775808})
  l = c128[2]{0} constant({(1, -2), (0.5, 1e300)})
  n = f32[0,3]{1,0} constant({})
  o = f32[2,0]{1,0} constant({{},{}})
  p = bf16[2,2]{0,1} constant({{1,2},{3,4}})
  q = f8e8m0fnu[2]{0} constant({1,4})
  ROOT s = s32[] constant(-7)
}
""",
    "windows": """HloModule m
"""
    + _ADD
    + """
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
ENTRY e {
  p = f32[4,6]{1,0} parameter(0)
  z = f32[] constant(0)
  w = f32[3,3]{1,0} reduce-window(p, z), window={size=2x2 stride=1x2 rhs_reversal=1x0}, to_apply=add
  s = f32[4,6]{1,0} select-and-scatter(p, w, z), window={size=2x2 stride=1x2}, select=ge, scatter=add
  d = f32[4,4]{1,0} dot(s, p), lhs_contracting_dims={1}, rhs_contracting_dims={1},
    operand_precision={high,default}, algorithm=dot_bf16_bf16_f32_x3
  r = f32[4,6]{1,0} rng(z, z), distribution=rng_uniform
  n = (u64[2]{0}, u32[3]{0}) rng-bit-generator(k), algorithm=rng_philox
  q = u64[1]{0} rng-get-and-update-state(), delta=5
  b = (f32[4,6]{1,0}, f32[6]{0}, f32[6]{0}) batch-norm-training(p, v, v), epsilon=0.001, feature_index=1
  f = c64[4,4]{1,0} fft(p), fft_type=RFFT, fft_length={6}
  t = f32[4,6]{1,0} sort(p), dimensions={1}, is_stable=true, to_apply=ge
  ROOT x = (f32[4,4]{1,0}, c64[4,4]{1,0}) tuple(d, f)
}
""".replace(
        "  z = f32[] constant(0)\n",
        "  z = f32[] constant(0)\n  k = u64[2]{0} constant({1,2})\n  v = f32[6]{0} constant({1,2,3,4,5,6})\n",
    ),
    "host": """HloModule m, input_output_alias={ {1}: (1, {}, must-alias) }, buffer_donor={ (0, {}) }, replica_count=2, num_partitions=2
ENTRY e {
  p = f32[4]{0} parameter(0)
  q = f32[<=6]{0} parameter(1)
  t = token[] after-all()
  i = ((f32[4]{0}), token[]) infeed(t), infeed_config="ab\\001"
  o = token[] outfeed(p, t), outfeed_config="x", outfeed_shape=f32[4]{0}
  n = s32[] get-dimension-size(q), dimensions={0}
  r = f32[<=6]{0} set-dimension-size(q, n), dimensions={0}
  u = f32[4]{0:T(2)S(1)} copy(p)
  ROOT x = (f32[4]{0}, f32[<=6]{0}) tuple(u, r)
}
""",  # noqa: E501
}


@cache
def text_modules() -> dict[str, bytes]:
    """Hand-written modules with what JAX never or seldom writes."""
    return {name: from_text(text) for name, text in TEXTS.items()}


NAMES = sorted(
    f"{group} {name}"
    for group, names in (("lowered", _lowering()), ("compiled", _COMPILED), ("text", TEXTS))
    for name in names
)
"""The names of `all_modules`, without making them: every process of a run collects all tests."""


def all_modules() -> dict[str, bytes]:
    """Every module, under a name of its own."""
    groups = {"lowered": lowered_modules(), "compiled": compiled_modules(), "text": text_modules()}
    return {f"{group} {name}": data for group, modules in groups.items() for name, data in modules.items()}
