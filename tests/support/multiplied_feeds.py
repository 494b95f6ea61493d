"""Sources of multiplied cases: samples of operations, golden modules, random programs, whole programs, functions of
JAX, and modules in a folder."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from tests.golden.runner import golden_files, read
from tests.support.multiplied import Compiled, Function, Unavailable, base
from tests.support.random_family import draw_family
from tests.support.random_values import Draw, values
from tests.support.random_writer import draw_writer
from tests.support.samples import SAMPLES
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.table import RECORDS


@dataclass(frozen=True)
class Feed:
    """A numbered supply of first functions: `make(number)` gives a module and arguments."""

    count: int
    make: Callable[[int], tuple[Module, list[Array]]]

    def function(self, number: int, target: str) -> Function:
        """A function compiled for a target. Raises Unavailable."""
        return _first(self, number, target)


@lru_cache(512)
def _first(feed: Feed, number: int, target: str) -> Function:
    module, arguments = feed.make(number)
    tried = base(module, arguments, lambda arguments: [])
    return base(module, tried.arguments, Compiled(module, target))


@cache
def _samples() -> list[int]:
    return [i for i, s in enumerate(SAMPLES) if not s.host.arguments() and not _is_odd(i)]


@cache
def _is_odd(number: int) -> bool:
    try:
        sample = SAMPLES[number]
        base(sample.module(), list(sample.args), lambda arguments: [])
    except Unavailable:
        return True
    return False


@cache
def samples_by_operation() -> list[list[int]]:
    """The numbers of samples of each operation; elementwise ones by four together."""
    found: dict[str, list[int]] = {}
    several: dict[str, str] = {}
    for number, i in enumerate(_samples()):
        name = SAMPLES[i].opcode
        if RECORDS[name].elementwise:
            name = several.setdefault(name, f"elementwise {len(several) // 4}")
        found.setdefault(name, []).append(number)
    return list(found.values())


def _sample(number: int) -> tuple[Module, list[Array]]:
    sample = SAMPLES[_samples()[number]]
    return sample.module(), list(sample.args)


def made_up(module: Module, seed: int = 11) -> list[Array]:
    """Arguments of small numbers for a module."""
    return [
        values(seed + i, shape.dimensions, shape.element_type) for i, (_, shape) in enumerate(parameter_leaves(module))
    ]


@cache
def _golden_paths() -> list[Path]:
    return [path for path in golden_files() if "values" not in read(path).settings]


def _golden(number: int) -> tuple[Module, list[Array]]:
    module = read(_golden_paths()[number]).module
    return module, made_up(module)


def _drawn(draw: Callable[[Draw], tuple[Module, list[Array]]]) -> Callable[[int], tuple[Module, list[Array]]]:
    def make(number: int) -> tuple[Module, list[Array]]:
        rng = random.Random(number)
        return draw(Draw(rng.randint))

    return make


def _program(number: int) -> tuple[Module, list[Array]]:
    from tests.support.whole_programs import PROGRAMS, lowered

    module, arguments = lowered(list(PROGRAMS)[number])
    return module, [np.asarray(a) for a in arguments]


@cache
def feeds() -> dict[str, Feed]:
    """All of them but folders and functions of JAX (`multiplied_jax.py`)."""
    from tests.support.whole_programs import PROGRAMS

    return {
        "samples": Feed(len(_samples()), _sample),
        "golden": Feed(len(_golden_paths()), _golden),
        "writer": Feed(1 << 30, _drawn(draw_writer)),
        "family": Feed(1 << 30, _drawn(draw_family)),
        "programs": Feed(len(PROGRAMS), _program),
    }


def folder(path: Path) -> Feed:
    """Modules in the files of a folder: HLO text, or any other format that is read."""
    files = sorted(p for p in path.rglob("*") if p.is_file())

    def make(number: int) -> tuple[Module, list[Array]]:
        module = Module.from_bytes(files[number].read_bytes())
        return module, made_up(module)

    return Feed(len(files), make)
