"""States that begin with what the artifact holds: in every host, for every type and shape, and what is refused."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.command_line import Cli
from tests.support.node_host import node_for, run_in_node
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.served_models import ask
from tests.support.served_models import serving as serving_here
from tests.support.wasi_commands import as_bytes, command, samples
from tests.support.wasi_commands import run as run_command
from tests.support.wasi_servers import COUNTER, server, serving
from xla_wasm import ArgumentError, HloModule, Options, OptionWarning, UnsupportedError, safetensors
from xla_wasm.assemble.initial import _dtype_name
from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES
from xla_wasm.host.arrays import Array, dtype_of
from xla_wasm.host.executor import load
from xla_wasm.host.fresh import FreshExecutable
from xla_wasm.jax import jit, lower
from xla_wasm.reference import evaluate

DIMENSIONS = ((), (3,), (2, 3), (0,), (0, 3), (5, 1), (17,), (3, 2, 5), (40, 16))


def values(rng: np.random.Generator, shape: Shape) -> Array:
    """An array of a type, special values among its elements, or zeros."""
    taken = samples(shape.element_type, 4096)[rng.integers(0, 4096, shape.size)]
    return np.asarray(taken if rng.integers(0, 4) else np.zeros_like(taken)).reshape(shape.dimensions)


def program(rng: np.random.Generator) -> tuple[Module, list[Shape], dict[int, int]]:
    """Two to five states of any type, an input, and which results replace them; each becomes another one, or is made of
    several."""
    b = Builder("states")
    kinds = []
    for _ in range(int(rng.integers(1, 3))):
        dims = DIMENSIONS[int(rng.integers(0, len(DIMENSIONS)))]
        kinds.append((str(rng.choice(ARRAY_TYPES if rng.integers(0, 2) else ["f32", "s32"])), dims))
    shapes = []
    for _ in range(int(rng.integers(2, 6))):
        element_type, dims = kinds[int(rng.integers(0, len(kinds)))]
        shapes.append(Shape(element_type, dims, Layout(tuple(map(int, rng.permutation(len(dims)))))))
    states = [b.parameter(i, shape) for i, shape in enumerate(shapes)]
    x = b.parameter(len(shapes), Shape("s32", ()))
    turned = b.op("compare", x, b.constant(Shape("s32", ()), [0]), direction="GT")

    def next_of(shape: Shape) -> Instruction:
        same = [s for s, other in zip(states, shapes) if other.without_layout() == shape.without_layout()]
        one, other = (same[int(rng.integers(0, len(same)))] for _ in range(2))
        plain = Shape(shape.element_type, shape.dimensions)
        way = int(rng.integers(0, 4))
        if way == 0:
            return one
        if way == 1 and shape.dimensions:
            return b.op("reverse", one, dimensions=(0,))
        if way == 2 and shape.element_type in ("f32", "s32"):
            return b.op(
                "add",
                one,
                b.op("broadcast", b.op("convert", x, shape=Shape(shape.element_type, ())), dimensions=(), shape=plain),
            )
        return b.op(
            "select", b.op("broadcast", turned, dimensions=(), shape=Shape("pred", shape.dimensions)), one, other
        )

    results = [next_of(shape) for shape in shapes] + [
        next_of(shapes[int(rng.integers(0, len(shapes)))]) for _ in range(2)
    ]
    order = rng.permutation(len(results)).tolist()
    return (
        b.module(b.op("tuple", *(results[i] for i in order))),
        shapes,
        {p: order.index(p) for p in range(len(shapes))},
    )


def steps(
    module: Module, held: list[Array], state: dict[int, int], given: list[Array]
) -> list[tuple[list[Array], list[Array]]]:
    """A loop in Python: of each run the outputs, and the states after it."""
    made = []
    for x in given:
        results = [np.asarray(r) for r in evaluate(module, *held, x)]
        held = [results[state[p]] for p in range(len(held))]
        made.append(([r for i, r in enumerate(results) if i not in state.values()], held))
    return made


def same(got: Any, wanted: Array, element_type: str, text: str) -> None:
    """Bit by bit, but for those that a narrow type does not have."""
    mask = np.uint8((1 << TYPES[element_type].bits) - 1 if TYPES[element_type].bits < 8 else 255)
    a, b = (np.frombuffer(as_bytes(np.asarray(v)), np.uint8) & mask for v in (got, wanted))
    assert np.shape(got) == wanted.shape and np.array_equal(a, b), text


@pytest.mark.parametrize("seed", range(seeds.count(2, 16)))
def test_the_same_as_a_loop(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    for case in range(12):
        module, shapes, state = program(rng)
        names = [x.name for x in module.entry.parameters]
        begun = {i: values(rng, shape) for i, shape in enumerate(shapes) if rng.integers(0, 3)}
        held = [begun.get(i, np.zeros(s.dimensions, dtype_of(s.element_type))) for i, s in enumerate(shapes)]
        given = [np.array(x, np.int32) for x in (1, -1, 0, 2)]
        wanted = steps(module, held, state, given)
        initial: dict[str | int, Any] = {(names[i] if rng.integers(0, 2) else i): array for i, array in begun.items()}
        chosen = {
            "sidecar": bool(rng.integers(0, 2)),
            "threads": bool(rng.integers(0, 4) == 0),
            "prepared": bool(rng.integers(0, 2)),
        }
        options = Options(state=state, initial=initial, **chosen)
        with warnings.catch_warnings(
            action="ignore", category=OptionWarning
        ):  # no constant may be large, no operation shared
            artifact = xla_wasm.compile(module, options)
        text = f"{module.to_text()}{chosen} {sorted(begun)}"
        types = [r.element_type for r in module.entry.root.shape.tuple_shapes]
        outputs = [i for i in range(len(types)) if i not in state.values()]
        if case % 4 == 0:
            for results, (outs, _) in zip(run_in_node(artifact, [[x] for x in given], tmp_path), wanted, strict=True):
                for i, got, want in zip(outputs, results, outs, strict=True):
                    same(got, want, types[i], text)
        exe = xla_wasm.load(artifact)
        exes = [exe, exe.clone(), pickle.loads(pickle.dumps(exe))]
        for each in exes:
            for i, name in enumerate(names[: len(shapes)]):
                same(each.get(name), held[i], shapes[i].element_type, text)
            for x, (outs, after) in zip(given, wanted):
                for i, got, want in zip(outputs, each.run(x), outs, strict=True):
                    same(got, want, types[i], text)
                for i, name in enumerate(names[: len(shapes)]):
                    same(each.get(name), after[i], shapes[i].element_type, text)
        fresh = FreshExecutable(artifact)
        for x in (given[0], given[0]):
            for i, got, want in zip(outputs, fresh.run(x), wanted[0][0], strict=True):
                same(got, want, types[i], text)


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_every_type(element_type: str, tmp_path: Path) -> None:
    """In Python, in Node and as a command, with what JavaScript reads of it before the first run."""
    assert _dtype_name(element_type) == dtype_of(element_type).name
    x = samples(element_type, 600).reshape(30, 20)
    text = f"""HloModule m
ENTRY e {{
  s = {element_type}[30,20]{{0,1}} parameter(0)
  r = {element_type}[30,20]{{1,0}} reverse(s), dimensions={{0}}
  ROOT t = ({element_type}[30,20]{{1,0}}, {element_type}[30,20]{{1,0}}) tuple(r, s)
}}
"""
    for sidecar in (False, True) if element_type in ("f64", "c64") else (False,):
        options: dict[str, Any] = {"state": {"s": 0}, "initial": {"s": x}, "sidecar": sidecar}
        artifact = xla_wasm.compile(HloModule.from_text(text), Options(**options))
        assert (artifact.sizes[1] > 0) == sidecar
        exe = xla_wasm.load(artifact)
        for wanted in (x, x[::-1], x):
            same(exe.run()[0], wanted, element_type, "")
        for (got,), wanted in zip(run_in_node(artifact, [[], [], []], tmp_path), (x, x[::-1], x)):
            same(got, wanted, element_type, "")
    if not sidecar:
        made = run_command(
            command(text, state={"s": 0}, initial={"s": x}), tmp_path / "c", "-o", "y.npy", "--repeat", "2"
        )
        same(made.array("y.npy").view(x.dtype), x[::-1], element_type, "")


@pytest.mark.parametrize("sidecar", [False, True])
def test_javascript_reads_and_sets_them(sidecar: bool, tmp_path: Path) -> None:
    module = lower(lambda s, n: (s, n - 1), np.zeros(400, np.float32), np.zeros(2, ml_dtypes.int4))
    begun = {"s": np.arange(400, dtype=np.float32), "n": np.array([-3, 5], ml_dtypes.int4)}
    options = Options(state={"s": "0", "n": "1"}, initial=begun, sidecar=sidecar)
    xla_wasm.compile(module, options).save(tmp_path / "m.wasm")
    script = f"""import {{ load }} from {json.dumps((ROOT / "web" / "xla_wasm.js").as_uri())};
for (const worker of [false, true]) {{
  const exe = await load(new URL('m.wasm', import.meta.url), {{ worker }});
  const got = [(await exe.get('s'))[399], ...(await exe.get('n'))];
  await exe.run();
  got.push(...(await exe.get('n')));
  await exe.set('n', [1, 2]);
  await exe.run();
  console.log(JSON.stringify([...got, ...(await exe.get('n'))]));
  exe.dispose();
}}
"""
    (tmp_path / "m.mjs").write_text(script)
    assert output([node_for("simd128"), "m.mjs"], tmp_path).splitlines() == ["[399,-3,5,-4,4,0,1]"] * 2


def test_structures_and_numbers() -> None:
    def step(params: dict[str, jax.Array], n: jax.Array, flags: list[jax.Array]) -> Any:
        return {"params": {"w": params["w"] * 2, "b": params["b"] + 1}, "n": n + 1, "flags": [~flags[0], flags[1]]}

    params = {"w": jnp.arange(6.0).reshape(2, 3), "b": np.float32(4)}
    flags = [np.array([True, False]), np.float32([0.5])]

    def flip(params: Any, n: Any, flags: Any) -> Any:
        return step(params, n, [flags[0], flags[1]]) | {"flags": [~flags[0], flags[1] * 2]}

    module = lower(flip, params, np.int32(0), flags)
    state: dict[str, str] = {"params": "params", "n": "n", "flags": "flags"}
    whole = {"params": params, "n": 7, "flags": [[True, False], np.float32([0.5])]}
    for initial in (whole, {"": whole}, {"params.*": params, "n": np.int32(7), "flags.0": flags[0], "flags.1": [0.5]}):
        exe = xla_wasm.load(xla_wasm.compile(module, Options(state=state, initial=initial)))
        np.testing.assert_array_equal(exe.get("params")["w"], params["w"])
        assert exe.get("params")["b"] == 4 and exe.get("n") == 7 and exe.get("flags")[0].tolist() == [True, False]
        exe.run()
        assert (
            exe.get("n") == 8
            and exe.get("params")["b"] == 5
            and exe.get("flags")[1] == 1
            and not exe.get("flags")[0][0]
        )
        exe.set("n", 3)
        exe.run()
        assert exe.get("n") == 4
        assert exe.clone().get("n") == 7
    big = np.arange(6, dtype=">f4").reshape(3, 2).T  # neither the machine's order of bytes nor of dimensions
    swapped = xla_wasm.load(
        xla_wasm.compile(lower(lambda s: s + 1, np.float32(big)), Options(state={"s": "result"}, initial={"s": big}))
    )
    np.testing.assert_array_equal(swapped.get("s"), big)


STEP = lower(
    lambda p, n, x: ({"w": p["w"] + x, "b": p["b"]}, n + 1, x),
    {"w": np.zeros(3, np.float32), "b": np.float32(0)},
    0,
    1.0,
)


@pytest.mark.parametrize(
    "initial, message",
    [
        ({"q": 1}, "there is no state 'q'; states: p.b, p.w, n"),
        ({9: 1}, "there is no parameter 9"),
        ({"x": 1.0}, "'x' is no state, which Options.state pairs with a result; states: p.b, p.w, n"),
        ({"p": 1}, "'p' stands for p.b, p.w: give a dict or its like, not int"),
        ({"p": {"w": np.zeros(3, np.float32)}}, r"the state 'p.b' is missing in what is given for 'p': f32\[\]"),
        ({"p": {"w": np.zeros(3, np.float32), "b": 1, "c": 2}}, "there is no state 'p.c'"),
        (
            {"p.w": np.zeros(3, np.float32), "p": {"w": np.zeros(3, np.float32), "b": 1}},
            "the state 'p.w' is given twice",
        ),
        ({"p.w": np.zeros(4, np.float32)}, r"the state 'p.w' is f32\[3\], got float32\[4\]"),
        (
            {"p.w": np.zeros(3, np.float16)},
            r"the state 'p.w' is f32\[3\], got float16\[3\]; .astype\('float32'\) converts it",
        ),
        ({"p.w": [1, 2]}, r"the state 'p.w' is f32\[3\], got lists of shape \[2\]"),
        ({"p.w": [1, [2], 3]}, "the lists in it have different lengths"),
        ({"p.b": 1e39}, r"the state 'p.b' is f32\[\]: 1e\+39 does not fit it"),
        ({"p.b": 10**400}, r"the state 'p.b' is f32\[\]: a number does not fit it"),
        ({"p.b": 1j}, r"the state 'p.b' is f32\[\], got Python's complex"),
        ({"p.b": True}, r"the state 'p.b' is f32\[\], got Python's bool"),
        (
            {"p.b": jax.random.key(0)},
            r"the state 'p.b' is f32\[\], got uint32\[2\]",
        ),
        ({"n": 2**31}, r"the state 'n' is s32\[\]: a number does not fit it"),
        ({"n": 1.0}, r"the state 'n' is s32\[\], got Python's float"),
        ({"n": "one"}, r"the state 'n' is s32\[\], got str: give an array"),
        ({"n": None}, "the state 'n' is missing"),
        ("n", "initial is a mapping, as in"),
        ({1.5: 2}, "initial is a mapping, as in"),
        ([("n",)], "initial is a mapping, as in"),
    ],
)
def test_what_does_not_fit(initial: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        xla_wasm.compile(STEP, Options(state={"p": "0", "n": "1"}, initial=initial))


def test_what_cannot_be() -> None:
    with pytest.raises(ArgumentError, match="named both as a weight and as state"):
        xla_wasm.compile(STEP, Options(state={"p": "0"}, weight_format={"p.w": "f16"}, initial={"p.w": [1, 2, 3]}))
    with pytest.raises(ArgumentError, match="jit has no option 'initial': a call is given its states"):
        jit(lambda s: s + 1, state={"s": ""}, initial={"s": 1})
    text = "HloModule d\nENTRY e { s = f32[<=4] parameter(0)  ROOT r = f32[<=4] negate(s) }"
    with pytest.raises(
        UnsupportedError, match=r"'s' is f32\[<=4\].*: only the host sets states with dynamic dimensions"
    ):
        xla_wasm.compile(HloModule.from_text(text), Options(state={"s": 0}, initial={"s": np.float32([1, 2])}))


def test_random_keys() -> None:
    def draw(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        kept, used = jax.random.split(key)
        return kept, x + jax.random.normal(used, x.shape)

    key, x = jax.random.key(7), np.zeros(3, np.float32)
    exe = load(xla_wasm.compile(lower(draw, key, x), Options(state={"key": "0"}, initial={"key": key})))
    np.testing.assert_allclose(exe.run(x)[0], draw(key, x)[1], rtol=1e-5)


def test_a_donated_argument() -> None:
    x = np.arange(4, dtype=np.float32)
    module = lower(lambda s, x: (s + x, s.sum()), x, x, donate_argnums=0)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(state={"s": "0"}, initial={"s": x})))
    assert [float(exe.run(x)[0]) for _ in range(3)] == [6, 12, 18]


def test_threads_and_devices() -> None:
    """Threads begin with it once; each device has its own."""
    big = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    module = lower(lambda s, x: (jnp.tanh(s @ x), s.sum()), big, big)
    shared = xla_wasm.compile(module, Options(state={"s": "0"}, initial={"s": big}, threads=True))
    single, several = (xla_wasm.load(shared, threads=threads) for threads in (1, 2))
    for _ in range(3):
        np.testing.assert_array_equal(single.run(big)[0], several.run(big)[0])
    np.testing.assert_array_equal(single.get("s"), several.get("s"))
    text = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { s = f32[2] parameter(0)  x = f32[2] parameter(1)
  t = f32[2] add(s, x)
  sum = f32[2] all-reduce(t), replica_groups={}, to_apply=add
  ROOT r = (f32[2], f32[2]) tuple(t, sum)
}"""
    artifact = xla_wasm.compile(
        HloModule.from_text(text), Options(state={"s": 0}, initial={"s": [1, 2]}, num_replicas=3)
    )
    exe = xla_wasm.load(artifact)
    xs = [np.float32([d, 10 * d]) for d in range(3)]
    held = [np.float32([1, 2])] * 3
    for _ in range(3):
        held = [s + x for s, x in zip(held, xs)]
        for (got,) in exe.run_replicated([[x] for x in xs]):
            np.testing.assert_array_equal(got, sum(held))
    np.testing.assert_array_equal(exe.get("s", device=2), held[2])


def test_devices_with_shards() -> None:
    """A state that all devices hold whole may have an initial value; one of which each device has a part is refused."""
    spec = jax.sharding.PartitionSpec
    x = np.arange(8, dtype=np.float32)
    module = lower(
        lambda s, t: (s + 1, t * 2), x, x, mesh={"i": 4}, in_specs=(spec("i"), spec()), out_specs=(spec("i"), spec())
    )
    exe = xla_wasm.load(xla_wasm.compile(module, Options(state={"t": "1"}, initial={"t": x})))
    for i in range(3):
        np.testing.assert_array_equal(exe.get("t"), x * 2**i)
        exe.run_global([x])
    with pytest.raises(UnsupportedError, match="each device has another part of the state 's'"):
        xla_wasm.compile(module, Options(state={"s": "0"}, initial={"s": x}))


def test_servers(tmp_path: Path) -> None:
    """Each request begins with it, in an instance that has served others too."""
    begun: dict[str, Any] = {"state": {"n": 0}, "initial": {"n": 40}}
    with serving(server(COUNTER, **begun), tmp_path, "--max-instance-reuse-count", "100000") as made:
        for i in range(50):
            assert made.post(str(i).encode()).json == {"result.1": -40 - i}
    with serving_here(xla_wasm.compile(HloModule.from_text(COUNTER), Options(**begun))) as app:
        assert [ask(app, json=i).json() for i in range(3)] == [{"result.1": -40 - i} for i in range(3)]


def test_dynamic_states_of_servers_begin_empty(tmp_path: Path) -> None:
    """In an instance that has served others, too: sizes are a part of a state."""
    text = """HloModule d
ENTRY e {
  s = s32[<=4] parameter(0)
  x = s32[<=4] parameter(1)
  n = s32[] get-dimension-size(s), dimensions={0}
  ROOT r = (s32[<=4], s32[]) tuple(x, n)
}
"""
    with serving(server(text, state={"s": 0}), tmp_path, "--max-instance-reuse-count", "100000") as made:
        for _ in range(20):
            assert made.post(b"[1, 2, 3]").json == {"result.1": 0}


def test_the_command(xla_wasm: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pb").write_bytes(STEP.to_proto())
    w, b = np.float32([1, 2, 3]), np.float32(4)
    np.save(tmp_path / "w.npy", w)
    np.savez(tmp_path / "p.npz", w=w.astype(np.float64), b=b)
    safetensors.save(tmp_path / "all.safetensors", {"p.w": w, "p.b": b, "n": np.int32(7)})
    states = ["--state", "p.*=0.*", "--state", "n=2"]  # results are 0.b, 0.w, 1 and 2
    for given, wanted in (
        (["p.w=w.npy"], (w, 0, 0)),
        (["p=p.npz"], (w, 4, 0)),
        (["all.safetensors"], (w, 4, 7)),
    ):
        options = [part for text in given for part in ("--initial", text)]
        assert xla_wasm("compile", "m.pb", "-o", "m.wasm", *states, *options)[0] == 0, given
        exe = load(tmp_path / "m.wasm")
        for name, value in zip(("p.w", "p.b", "n"), wanted):
            np.testing.assert_array_equal(exe.get(name), value)
    for given, message in (
        (["x=w.npy"], "--initial x=w.npy: there is no state called 'x': there are p.b, p.w, n"),
        (["w.npy"], "--initial w.npy: a .npy file has one array: say which state it is, as in --initial p.b=w.npy"),
        (["n=w.npy"], "--initial n=w.npy: 'n' must be int32[], got float32[3]; give another file"),
        (["p.w=none.npy"], "--initial p.w=none.npy: there is no such file"),
    ):
        code, _, error = xla_wasm("compile", "m.pb", "-o", "m.wasm", *states, "--initial", *given)
        assert code and message in error.replace("\n", " "), error
    code, _, error = xla_wasm("compile", "m.pb", "-o", "all.safetensors", *states, "--initial", "all.safetensors")
    assert code and "all.safetensors" in error and (tmp_path / "all.safetensors").stat().st_size < 1000
