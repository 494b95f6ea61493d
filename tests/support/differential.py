"""One program run in every way that is asked for: compiled for each target, in each host, against a judge.

Values count bit for bit unless a test says how near they have to be: equal dtypes, shapes, numbers and signs of zeros,
and NaN in the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import xla_wasm
from tests.support.closeness import Array, Near, assert_all, assert_same
from xla_wasm.artifact import SECTION, Artifact, encode_manifest
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import parameter_leaves, result_leaves
from xla_wasm.reference import evaluate
from xla_wasm.wasm.module import custom

Judge = Callable[..., Sequence[Any]]
"""Returns the expected results of a module for arguments: `evaluate`, or `xla_cpu.run`."""

Host = Callable[[Artifact, list[Any], dict[str, Any]], list[Array]]
"""Runs an artifact once, with inputs, and weights by name: wasmtime if no test says `node_host.in_node`."""

TARGETS: dict[str, dict[str, Any]] = {
    "simd128": {},
    "relaxed-simd": {"target": "relaxed-simd"},
    "relaxed-simd for v8": {"target": "relaxed-simd", "tune": "v8"},
    "relaxed-simd for wasmtime": {"target": "relaxed-simd", "tune": "wasmtime"},
    "threads": {"threads": True},
}
"""Name of what is compiled for -> the options that say so."""

BOTH = ("simd128", "relaxed-simd")
TUNED = ("simd128", "relaxed-simd for v8")
EACH = (*TUNED, "relaxed-simd for wasmtime")


def run(
    module: Module | str,
    *args: Any,
    host: Host | None = None,
    times: int = 1,
    untrusted: bool = False,
    outfeed: list[Any] | None = None,
    **options: Any,
) -> list[Array]:
    """All results of a module, compiled with these options, in their order.

    `args` are all parameters in their order, those of `weights` and `state` (pairs of a parameter's number and a
    result's) included: they are set, and the results that are a state's next are read from there. Runs in wasmtime, so
    many `times` from the same arguments, of which the last counts; or in `host`, once, if there is no state. `outfeed`
    gets what the last run puts out.
    """
    module = Module.from_text(module) if isinstance(module, str) else module
    artifact = xla_wasm.compile(module, xla_wasm.Options(**options))
    states: dict[int, int] = {result: place for place, result in options.get("state", ())}
    names = [name for name, _ in parameter_leaves(module)] if states or options.get("weights") else []
    places = [names.index(w) if isinstance(w, str) else w for w in options.get("weights", ())]
    kept = {place: args[place] for place in (*places, *states.values())}
    inputs = [a for i, a in enumerate(args) if i not in kept]
    held = {names[place]: value for place, value in kept.items()}
    if host is not None:
        assert not states
        return host(artifact, inputs, held)
    threads = {"threads": 2} if options.get("threads") and not untrusted else {}
    executable = xla_wasm.load(artifact, untrusted=untrusted, **threads)
    puts_out = any(request["kind"] == "outfeed" for request in artifact.manifest["requests"])
    for _ in range(times):
        for name, value in held.items():
            executable.set(name, value)
        taken: list[Any] = []
        outputs = iter(executable.run(*inputs, outfeed=taken if puts_out and outfeed is not None else None))
    if outfeed is not None:
        outfeed[:] = taken
    if not states:
        return list(outputs)
    count = len(result_leaves(module))
    return [executable.get(names[states[r]]) if r in states else next(outputs) for r in range(count)]


def differential(
    module: Module | str,
    *args: Any,
    targets: Iterable[str] = ("simd128",),
    hosts: Iterable[Host | None] = (None,),
    judges: Judge | Sequence[Judge] = evaluate,
    expected: Sequence[Any] | None = None,
    near: Near = assert_same,
    **options: Any,
) -> list[Array]:
    """Runs a module for each of `targets` (of `TARGETS`) in each of `hosts` (None: wasmtime) and compares all
    results with those that `judges` give, or with `expected`. Returns the results of the first way.

    `args` and `options` are those of `run`. `near` compares an array with the expected one, and raises AssertionError
    if that is too far.
    """
    module = Module.from_text(module) if isinstance(module, str) else module
    with np.errstate(all="ignore"):
        named = judges if isinstance(judges, Sequence) else (judges,)
        wanted = [judge(module, *args) for judge in named] if expected is None else [expected]
    ways = [(target, host) for target in targets for host in hosts]
    first: list[Array] = []
    for target, host in ways:
        results = run(module, *args, host=host, **(TARGETS[target] | options))
        try:
            for one in wanted:
                assert_all(results, one, near)
        except AssertionError as error:
            where = getattr(host, "__name__", "wasmtime")
            raise AssertionError(f"{target}, {where}: {error}\n{module.to_text()}") from error
        first = first or results
    return first


def check_states(
    module: Module, held: list[Array], given: Sequence[Sequence[Array]], state: Any, **options: Any
) -> None:
    """Runs a program of which the first parameters are states, once for each of `given`: outputs and states are after
    each run those that the evaluator gives, bit for bit. `state` has pairs of a state's number and the result's that is
    its next."""
    following = dict(state)
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(state=tuple(following.items()), **options)))
    names = [p.name for p in exe.parameters if p.kind == "state"]
    for name, value in zip(names, held, strict=True):
        exe.set(name, value)
    for inputs in given:
        wanted = [np.asarray(a) for a in evaluate(module, *held, *inputs)]
        outputs = exe.run(*inputs)
        held = [wanted[following[place]] for place in range(len(held))]
        try:
            assert_all(outputs, [w for i, w in enumerate(wanted) if i not in following.values()])
            assert_all([exe.get(name) for name in names], held)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{module.to_text()}") from error


def run_with_state(module: Module, arrays: list[Array], options: dict[str, Any]) -> list[bytes]:
    """The bytes of the results; where `options` name a state, those of two runs in a row, and what the state is
    then."""
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(**options)))
    if "state" not in options:
        return [a.tobytes() for a in exe.run(*arrays)]
    ((place, _),) = options["state"]
    name = exe.parameters[place].name
    exe.set(name, arrays[place])
    others = arrays[:place] + arrays[place + 1 :]
    made = [a.tobytes() for _ in range(2) for a in exe.run(*others)]
    return [*made, exe.get(name).tobytes()]


def code(artifact: Artifact) -> bytes:
    """The module without its manifest, which names the target: two artifacts with the same code compute the same."""
    return artifact.wasm.removesuffix(custom(SECTION, encode_manifest(artifact.manifest))) + artifact.weights
