"""Arguments, results and weights by name and in structures in JavaScript: what Python's host gives, in Node, Deno, Bun
and Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.host.test_structures import PARAMS, X, f
from tests.support import seeds
from tests.support.js_calls import ENGINES, IN_A_PAGE, RUNTIMES, Call, call_fixture, isolated_site, nothing
from tests.support.toy_artifact import with_manifest
from tests.support.web_server import Answer, Site
from tests.support.webkit import WebKit
from xla_wasm import ArgumentError, HloModule, Options
from xla_wasm.artifact import Artifact
from xla_wasm.jax import lower

EVERYWHERE = [*ENGINES, *RUNTIMES]
KEYS = [
    "a",
    "b",
    "a.b",
    "0",
    "w",
    "a b",
    "Größe",
    "__proto__",
    "constructor",
    "length",
    "then",
    "toString",
    "",
    "out",
    "1e3",
    "-1",
]
NAMES = ["params", "x", "opt", "scale"]
Tagged = list[Any]
"""A structure as JSON has it, see tests/js/structures.mjs."""


class Pair(NamedTuple):
    first: Any
    then: Any


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    w: Any
    constructor: Any
    length: Any


OBJECTS: list[Any] = [Pair, Layer]


def random_tree(rng: np.random.Generator, depth: int, number: Iterator[int]) -> Tagged:
    if depth == 0 or rng.random() < 0.25:
        return leaf(rng, number) if rng.random() < 0.85 else ["none", bool(rng.integers(2))]
    kind = rng.choice(["dict", "dict", "numbers", "list", "tuple", "object"])
    if kind == "object":
        fields = OBJECTS[rng.integers(2)]
        names = [*fields.__annotations__]
        return ["object", [[name, random_tree(rng, depth - 1, number)] for name in names], fields.__name__]
    children = [random_tree(rng, depth - 1, number) for _ in range(rng.integers(0, 4))]
    if kind == "dict":
        return ["dict", [[str(key), child] for key, child in zip(rng.permutation(KEYS), children)]]
    if kind == "numbers":
        return [
            "map" if rng.integers(2) else "dict",
            [[int(key), child] for key, child in zip(rng.permutation(12), children)],
            "numbers",
        ]
    return ["list", children, str(kind)]


def leaf(rng: np.random.Generator, number: Iterator[int]) -> Tagged:
    return ["leaf", [next(number) for _ in range(rng.integers(1, 3))]]


def made(tree: Tagged) -> Any:
    """The structure in Python."""
    kind, content = tree[0], tree[1]
    if kind == "none":
        return None
    if kind == "leaf":
        return np.float32(content)
    if kind == "list":
        return [*map(made, content)] if tree[2] == "list" else tuple(map(made, content))
    if kind == "object":
        return next(o for o in OBJECTS if o.__name__ == tree[2])(*(made(child) for _, child in content))
    return {key: made(child) for key, child in content}


def shown(value: Any) -> Tagged:
    """Returns a result in the form in which JavaScript shows it."""
    if value is None:
        return ["none"]
    if isinstance(value, np.ndarray):
        return ["leaf", value.ravel().tolist()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = value._asdict() if not any(name.startswith("_") for name in value._fields) else {}
    if isinstance(value, dict):
        # In JavaScript's order: by UTF-16 units.
        items = sorted(
            ((str(key), child) for key, child in value.items()), key=lambda item: item[0].encode("utf-16-be")
        )
        return ["dict", [[key, shown(child)] for key, child in items]]
    return ["list", [*map(shown, value)]]


def mutated(rng: np.random.Generator, tree: Tagged, number: Iterator[int]) -> Tagged:
    """The tree with one thing changed somewhere: a child gone or too many, another key, an array in the place of a
    structure, ..."""
    kind, content = tree[0], tree[1]
    if kind in ("dict", "map", "object", "list") and content and rng.random() < 0.7:
        at = int(rng.integers(len(content)))
        children = [child if kind == "list" else child[1] for child in content]
        children[at] = mutated(rng, children[at], number)
        return [
            kind,
            children if kind == "list" else [[key, child] for (key, _), child in zip(content, children)],
            *tree[2:],
        ]
    if kind == "list":
        return ["list", content[:-1] if content and rng.integers(2) else [*content, leaf(rng, number)], tree[2]]
    if kind in ("dict", "map", "object"):
        kind = "dict" if kind == "object" else kind
        change = rng.integers(3)
        if change == 0 and content:
            return [kind, content[1:]]
        return [kind, [*content, ["zz", leaf(rng, number)]]] if change == 1 else leaf(rng, number)
    return ["none", False] if rng.integers(2) else ["dict", [["zz", leaf(rng, number)]]]


def outcome(work: Any) -> Any:
    """Returns the outcome in Python: the result as it is shown, or the error with its message."""
    try:
        return shown(work())
    except ArgumentError as error:
        return ["error", "ArgumentError", str(error)]


def quoted(message: str) -> list[str]:
    """The paths that a message is about: what it has in quotes, without examples of what to call."""
    return re.findall(r"'([^']*)'", re.sub(r"exe\.set\(.*", "", message))


class Case:
    """A random program, what it is asked in JavaScript, and what Python says to each."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        number = iter(range(1, 10_000))
        names = [str(name) for name in rng.permutation(NAMES)[: rng.integers(1, 4)]]
        trees = {name: random_tree(rng, 3, number) for name in names}
        trees[names[0]] = (
            trees[names[0]] if any(jax.tree.leaves(made(t)) for t in trees.values()) else leaf(rng, number)
        )
        order = [str(name) for name in rng.permutation(names)]
        kind = rng.integers(3)

        def g(**kwargs: Any) -> Any:
            changed = [jax.tree.map(lambda x: x * 2 + 1, kwargs[name]) for name in order]
            return {"all": changed, "none": None} if kind == 0 else tuple(changed) if kind == 1 else changed[0]

        text = f"def h({', '.join(names)}): return g({', '.join(f'{name}={name}' for name in names)})"
        exec(text, scope := {"g": g})
        module = lower(scope["h"], *(made(trees[name]) for name in names))
        full = [name for name in names if jax.tree.leaves(made(trees[name]))]
        kept = [name for name in full if rng.random() < 0.3]
        self.artifact = xla_wasm.compile(module, Options(weights=kept))
        self.weights: list[Any] = []
        exe = xla_wasm.load(copy(self.artifact))  # without the classes of this process, as JavaScript has it
        self.asked: list[Any] = []
        self.expected: list[Any] = []

        def ask(way: str, given: list[Any], work: Any) -> None:
            self.asked.append([way, given])
            self.expected.append(outcome(work))

        for name in kept:

            def set_and_get(name: str = name, tree: Tagged = trees[name]) -> Any:
                exe.set(name, made(tree))
                return exe.get(name)

            if name in {p.name for p in exe.parameters}:
                self.weights.append([name, trees[name]])
                exe.set(name, made(trees[name]))
                continue
            ask("set", [[name, trees[name]]], set_and_get)
            ask("get", [[name]], lambda name=name: exe.get(name))
            if self.expected[-1][0] == "error":  # two paths of one name: each array by the name that it has
                for p, value in zip(
                    (p for p in exe.parameters if p.name.startswith(f"{name}.")), jax.tree.leaves(made(trees[name]))
                ):
                    self.weights.append([p.name, ["leaf", value.tolist()]])
                    exe.set(p.name, value)
        taken = [name for name in names if name not in kept]
        given = [[name, trees[name]] for name in taken]
        values = {name: made(trees[name]) for name in taken}
        flat = [[name, tree] for name, tree in given if name in full]
        ask("call", given, lambda: exe.call(*values.values()) if not kept else exe.call(**values))
        ask("call by name", given, lambda: exe.call(**values))
        ask("call, awaited", given, lambda: exe.call(**values))
        ask("run by name", flat, lambda: exe.run({name: values[name] for name, _ in flat}))
        ask("run", flat, lambda: exe.run(*(values[name] for name, _ in flat)))
        ask("run, named", flat, lambda: exe.run({name: values[name] for name, _ in flat}, as_dict=True))
        for _ in range(4):
            if len(given) > 1:
                at = int(rng.integers(len(given)))
                wrong = [
                    [name, mutated(rng, tree, number) if i == at else tree] for i, (name, tree) in enumerate(given)
                ]
                ask("call by name", wrong, lambda wrong=wrong: exe.call(**{name: made(tree) for name, tree in wrong}))
        self.replicated = (
            None if kept or not flat or self.expected[-3][0] == "error" or self.expected[-2][0] == "error" else flat
        )
        self.runs = self.expected[[way for way, _ in self.asked].index("run by name")]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case(seed) for seed in range(seeds.count(13, 300))]


def lying(name: str, value: Any) -> bytes:
    """The module of `f` whose description of structures is wrong."""
    artifact = compiled()
    section = with_manifest(b"", artifact.manifest)
    assert section in artifact.wasm
    structure = value if name == "structure" else {**artifact.manifest["structure"], name: value}
    return with_manifest(artifact.wasm.replace(section, b""), {**artifact.manifest, "structure": structure})


def compiled(**options: Any) -> Artifact:
    return xla_wasm.compile(lower(f, PARAMS, X, scale=1.0), Options(**options))


def nested(depth: int) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = ["list", tree]
    return tree


def handmade() -> dict[str, bytes]:
    def states(s: Any, x: Any) -> Any:
        return jax.tree.map(lambda a: a + x, s)

    def called_as_options(a: Any, b: Any) -> Any:
        return jax.numpy.concatenate([b["out"] + b["signal"], a["out"].ravel()])

    def viewed(p: Any, x: Any) -> Any:
        return (p["a"] @ p["b"].T) @ p["a"] * x

    def divided(tree: Any) -> Any:
        return {"double": jax.tree.map(lambda x: 2 * x, tree), "sum": jax.lax.psum(tree["x"].sum(), "i")}

    wide = np.zeros((2, 3), np.float32)
    whole = {"x": np.zeros(4, np.float32), "more": [np.zeros(2, np.float32)]}
    named = """HloModule m, frontend_attributes={xla_wasm.parameter_names="[\\"p.w\\",\\"p.b\\",\\"x\\"]"}
ENTRY e { w = f32[] parameter(0)  b = f32[] parameter(1)  x = f32[] parameter(2)  wx = f32[] multiply(w, x)  ROOT y = f32[] add(wx, b) }
"""  # noqa: E501
    plain = "HloModule p\nENTRY e { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }\n"
    options = lower(called_as_options, {"out": X}, {"out": X[0, :2], "signal": X[0, :2]})
    mesh = lower(divided, whole, mesh={"i": 2}, in_specs=(P("i"),), out_specs={"double": P("i"), "sum": P()})
    made = {
        "f": compiled(),
        "weights": compiled(weights="params"),
        "part": compiled(weights="params.w"),
        "states": xla_wasm.compile(lower(states, PARAMS, 1.0), Options(state={"s": ""})),
        "options": xla_wasm.compile(options),
        "names": xla_wasm.compile(HloModule.from_text(named)),
        "plain": xla_wasm.compile(HloModule.from_text(plain)),
        "views": xla_wasm.compile(lower(viewed, {"a": wide, "b": wide}, 1.0), Options(weights="p")),
        "divided": xla_wasm.compile(mesh),
    }
    lies = {
        "lies-all": ("structure", 3),
        "lies-names": ("names", ["params", "x", "x"]),
        "lies-positional": ("positional", 4),
        "lies-keys": ("arguments", [["dict", [1, "1"], 0, 1], 2, 3]),
        "lies-kind": ("arguments", [["set", 0, 1], 2, 3]),
        "lies-depth": ("arguments", [nested(300), 1, 2]),
        "lies-leaves": ("results", ["tuple", 0, 1]),
    }
    return {name: artifact.wasm for name, artifact in made.items()} | {name: lying(*lie) for name, lie in lies.items()}


@pytest.fixture(scope="module")
def site(cases: list[Case]) -> Iterator[Site]:
    files = {f"case-{i}": case.artifact.wasm for i, case in enumerate(cases)} | handmade()
    site = isolated_site({f"/{name}.wasm": Answer(body) for name, body in files.items()})
    with site.serving():
        yield site


call = call_fixture("structures.mjs", EVERYWHERE)


def differences(case: Case, got: list[Any], where: str) -> list[str]:
    """Returns the outcomes of JavaScript that are not those of Python, in words; of errors the first two names in the
    message count."""
    wrong = []
    for (way, given), expected, outcome in zip(case.asked, case.expected, got, strict=True):
        if expected[0] == "error" and outcome[0] == "error":
            same = outcome[1] == "ArgumentError" and quoted(outcome[2])[:2] == quoted(expected[2])[:2]
        else:
            same = outcome == expected
        if not same:
            wrong.append(f"{where}, {way}({given}): {outcome} instead of {expected}")
    return wrong


@pytest.mark.parametrize("where", ["here", "worker"])
def test_random_structures(call: Call, cases: list[Case], where: str) -> None:
    """Whatever the structure, each array comes and goes in its place, and what does not fit is told by its path: as in
    Python."""
    chosen = [*enumerate(cases)][:: 1 if where == "here" else 5]
    options = {"worker": True} if where == "worker" else {}
    jobs = [
        {"file": f"case-{i}.wasm", "options": options, "weights": case.weights, "asked": case.asked}
        for i, case in chosen
    ]
    batches = [call("structures", jobs[i : i + 20]) for i in range(0, len(jobs), 20)]  # as many as a command line holds
    wrong = []
    for (i, case), got in zip(chosen, [outcome for batch in batches for outcome in batch], strict=True):
        wrong += differences(case, got, f"case {i}")
    nothing(wrong)


def test_the_random_cases_are_many_and_various(cases: list[Case]) -> None:
    outcomes = [outcome[0] for case in cases for outcome in case.expected]
    assert (
        outcomes.count("error") > len(cases)
        and outcomes.count("dict") > len(cases)
        and outcomes.count("list") > len(cases)
    )


def test_random_structures_on_devices(call: Call, cases: list[Case]) -> None:
    chosen = [(i, case) for i, case in enumerate(cases) if case.replicated][:3]
    jobs = [
        {"file": f"case-{i}.wasm", "options": {"devices": 2}, "weights": [], "asked": [["replicated", case.replicated]]}
        for i, case in chosen
    ]
    assert len(jobs) == 3
    for (_, case), got in zip(chosen, call("structures", jobs), strict=True):
        assert got == [["list", [case.runs, case.runs]]]


@pytest.mark.parametrize("where", ["here", "worker"])
def test_handmade(call: Call, where: str) -> None:
    nothing(call("handmade", {"where": where}))


def test_divided(call: Call) -> None:
    nothing(call("divided"))


def test_webkit(webkit: WebKit, site: Site) -> None:
    tab = webkit.open(site.url)
    for where in ("here", "worker"):
        nothing(tab.call(IN_A_PAGE, ["structures.mjs", "handmade", {"where": where}]))
    nothing(tab.call(IN_A_PAGE, ["structures.mjs", "divided", None]))
    tab.close()
