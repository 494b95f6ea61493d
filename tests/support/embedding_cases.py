"""Artifacts of all kinds that a host may meet, which together have every field that a manifest can have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.support.hostio_cases import IN_LOOP, TURNED
from tests.support.hostio_cases import module as hostio
from tests.support.paths import ROOT
from tests.support.replica_programs import entry, reduced, steps
from xla_wasm import Artifact, HloModule, Options
from xla_wasm.builder import Builder
from xla_wasm.hlo.layout import COMBINE
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.jax import lower

DIGITS = ROOT / "examples" / "digits"

NAMES = [
    "a.b",
    "a_b",
    "a b",
    "A-B",
    "a.b.2",
    "",
    "é",
    "9",
    'it\'s a "name" \\ with ??/ and */ /* // in it',
    "line\nbreak\ttab",
    "int",
    "x_OFFSET",
    "x",
    "x OFFSET OFFSET",
    "\u202eright to left",
    "params['dense']['kernel']",
    "a=b",
    "\x011 after a control character",
]
"""Names that parameters and results may have; what is left of some of them in C is the same."""


@cache
def digits() -> Artifact:
    """The classifier of the examples: one image in, ten numbers out."""
    return xla_wasm.compile(HloModule.from_proto((DIGITS / "digits.hlo.pb").read_bytes()))


@cache
def dense(sidecar: bool = False) -> Artifact:
    """Weights, of which one is packed and one is not, and a large constant that is packed too."""
    table = np.sin(np.arange(64 * 16, dtype=np.float32)).reshape(64, 16)

    def layer(x: jnp.ndarray, w: jnp.ndarray, b: jnp.ndarray) -> jnp.ndarray:
        return jnp.tanh((x @ table) @ w + b)

    module = lower(layer, np.zeros((6, 64), np.float32), np.zeros((16, 5), np.float32), np.zeros(5, np.float32))
    return xla_wasm.compile(module, Options(weights=("w", "b"), sidecar=sidecar))


@cache
def in_parts() -> Artifact:
    """A table so large that it comes in parts, the last of them shorter."""
    module = lower(lambda table, rows: table[rows], np.zeros((40000, 128), np.float32), np.zeros(3, np.int32))
    return xla_wasm.compile(module, Options(weight_format={"table": "bf16"}))


@cache
def late() -> Artifact:
    """Compiles a module that packs its weight with a sorted constant, which another `init` makes before."""
    values = ", ".join(map(str, range(64, 0, -1)))
    text = f"""HloModule late

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}

ENTRY main {{
  x = f32[8,8] parameter(0), metadata={{op_name="x"}}
  w = f32[64] parameter(1), metadata={{op_name="w"}}
  c = f32[64] constant({{{values}}})
  s = f32[64] sort(c), dimensions={{0}}, to_apply=less
  v = f32[64] add(w, s)
  m = f32[8,8] reshape(v)
  ROOT y = f32[8,8] dot(x, m), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    return xla_wasm.compile(HloModule.from_text(text), Options(weights=("w",)))


@cache
def counter(*begun: float) -> Artifact:
    """A state that grows by the input in each run, and the sum of it as a result; the artifact may have what it begins
    with."""
    module = lower(lambda total, x: (total + x, jnp.sum(total + x)), np.zeros(4, np.float32), np.zeros(4, np.float32))
    return xla_wasm.compile(module, Options(state={"total": 0}, initial={"total": begun} if begun else {}))


@cache
def turned() -> Artifact:
    """Inputs and results whose first dimension is the one that lies close, and types of other widths."""
    return xla_wasm.compile(
        HloModule.from_text("""HloModule turned

ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  k = s64[] parameter(1)
  h = bf16[4] parameter(2)
  q = s4[3] parameter(3)
  c = c64[2] parameter(4)
  y = f32[2,3]{0,1} negate(x)
  one = s64[] constant(1)
  l = s64[] add(k, one)
  p = pred[2,3] compare(x, y), direction=LT
  ROOT r = (f32[2,3]{0,1}, s64[], bf16[4], s4[3], c64[2], pred[2,3]) tuple(y, l, h, q, c, p)
}
""")
    )


@cache
def called() -> Artifact:
    """The host computes a function of two arrays, which gives two."""
    return xla_wasm.compile(
        HloModule.from_text("""HloModule called

ENTRY e {
  x = f32[3] parameter(0)
  n = s32[] parameter(1)
  c = (f32[3], s32[]) custom-call(x, n), custom_call_target="my function", backend_config="with this"
  y = f32[3] get-tuple-element(c), index=0
  m = s32[] get-tuple-element(c), index=1
  z = f32[3] add(x, y)
  ROOT r = (f32[3], s32[]) tuple(z, m)
}
"""),
        Options(host_calls=("my function",)),
    )


@cache
def called_back() -> Artifact:
    """A Python function of a JAX program, which is not there."""
    return xla_wasm.compile(
        HloModule.from_text("""HloModule called_back

ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", backend_config={index = 0 : ui64}
}
""")
    )


@cache
def fed() -> Artifact:
    """Four trips of a loop, each of which takes an item and gives one."""
    return xla_wasm.compile(IN_LOOP)


@cache
def dynamic() -> Artifact:
    """A dynamic dimension in and out."""
    return xla_wasm.compile(
        HloModule.from_text(
            "HloModule dynamic\n\nENTRY e {\n  x = f32[<=5,4] parameter(0)\n  ROOT y = f32[<=5,4] negate(x)\n}\n"
        )
    )


RANGED = """HloModule ranged

ENTRY e {
  x = f32[<=8,3] parameter(0), frontend_attributes={xla_wasm.least_sizes="[4,3]"}
  ROOT y = f32[<=8,3] negate(x)
}
"""
"""A module for 4 to 8 rows."""


@cache
def ranged() -> Artifact:
    """A dynamic dimension that has a least size."""
    return xla_wasm.compile(HloModule.from_text(RANGED))


@cache
def collective(devices: int = 2) -> Artifact:
    """Exchanges in a loop: sums over all devices, and moves to the next one."""
    return xla_wasm.compile(steps(devices))


@cache
def sent() -> Artifact:
    """Device 0 sends twice before device 1 receives."""
    pairs = 'channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    lines = ["x = f32[3] parameter(0)", "y = f32[3] negate(x)", "t = token[] after-all()"]
    lines += [f"s{i} = (f32[3], u32[], token[]) send({x}, t), {pairs}" for i, x in enumerate("xy")]
    for i in range(2):
        lines += [
            f"v{i} = (f32[3], u32[], token[]) recv(t), {pairs}",
            f"d{i} = (f32[3], token[]) recv-done(v{i}), channel_id=1",
        ]
        lines += [f"z{i} = f32[3] get-tuple-element(d{i}), index=0"]
    return xla_wasm.compile(entry("\n".join([*lines, "ROOT r = (f32[3], f32[3]) tuple(z0, z1)"])))


@cache
def divided() -> Artifact:
    """Global arrays on two devices."""
    module = lower(
        lambda x: lax.psum(x, "i") + x, np.zeros((4, 3), np.float32), mesh={"i": 2}, in_specs=P("i"), out_specs=P("i")
    )  # fmt: skip
    return xla_wasm.compile(module)


@cache
def for_threads(sidecar: bool = False) -> Artifact:
    """A product that threads share, by a constant that may lie in a file."""
    table = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    return xla_wasm.compile(lower(lambda x: x @ table, table), Options(threads=True, sidecar=sidecar))


def laid_out(layout: Layout) -> Artifact:
    """An array of that layout in."""
    b = Builder("laid_out")
    return xla_wasm.compile(b.module(b.negate(b.parameter(0, Shape("f32", (3, 5), layout)))))


@cache
def named() -> Artifact:
    """Parameters and results of all the names."""
    b = Builder('named */ "too" ??/')
    xs = [b.parameter(i, Shape("f32", (i + 1,))) for i in range(len(NAMES))]
    module = b.module(b.tuple(*map(b.negate, xs)))
    artifact = xla_wasm.compile(module, Options(weights=(1, 3), state={2: 2, 4: 4}))
    return renamed(artifact, NAMES)


def renamed(artifact: Artifact, names: list[str]) -> Artifact:
    """The artifact with other names in its manifest."""
    from tests.support.toy_artifact import lying

    for i, name in enumerate(names):
        artifact = Artifact.open(lying(artifact, f"parameters.{i}.name", name))
        artifact = Artifact.open(lying(artifact, f"results.{i}.name", name))
    return artifact


def _making() -> dict[str, Callable[[], Artifact]]:
    """Returns the functions that make the artifacts, named after the special trait of each."""
    layouts = [
        Layout((0, 1), ((COMBINE, 3), (2, 1))),
        Layout((1, 0), (), 0, 0, 8),
        Layout((1, 0), padded_dimensions=(4, 7), padding_value=2),
        Layout((1, 0), (), 64),
        Layout((1, 0), (), dynamic_shape_metadata_prefix_bytes=16),
    ]
    rng = "a = f32[] constant(0)\nb = f32[] constant(1)\nROOT r = f32[4] rng(a, b), distribution=rng_uniform"
    return {
        "digits": digits,
        "weights": dense,
        "sidecar": lambda: dense(sidecar=True),
        "in parts": in_parts,
        "late": late,
        "state": counter,
        "turned": turned,
        "called": called,
        "called back": called_back,
        "fed": fed,
        "fed with layouts": lambda: xla_wasm.compile(hostio(TURNED, "x: s4[4]")),
        "dynamic": dynamic,
        "ranged": ranged,
        "collective": collective,
        "fixed devices": lambda: xla_wasm.compile(reduced(4), Options(num_replicas=2, num_partitions=1)),
        "sent": sent,
        "divided": divided,
        "undivided": lambda: xla_wasm.compile(
            entry("x = f32[4] parameter(0), sharding={devices=[2]0,1}\nROOT y = f32[4] add(x, x)")
        ),
        "random": lambda: xla_wasm.compile(entry(rng)),
        "relaxed": lambda: xla_wasm.compile(reduced(4), Options(target="relaxed-simd", tune="v8")),
        "named": named,
        "command": lambda: xla_wasm.compile(
            entry("x = f32[4] parameter(0)\nROOT y = f32[4] add(x, x)"), Options(kind="command")
        ),
        **{f"layout {i}": partial(laid_out, layout) for i, layout in enumerate(layouts)},
    }


ARTIFACTS = [*_making()]
"""The names of the artifacts, after the special trait of each."""


@cache
def artifacts() -> dict[str, Artifact]:
    """All of them, by what is special about each."""
    return {name: make() for name, make in _making().items()}
