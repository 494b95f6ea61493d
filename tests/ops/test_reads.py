"""Readings of operands, as the records of operations state them, against the results of the reference evaluator.

One element of an operand is changed: only results whose stated reading contains it may change, and where a statement
leaves nothing open, each of them does for some values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import seeds
from tests.support.operation_instances import READING, Instance, bits, instances, leaf_dims, random_array, sampled
from tests.support.random_family import draw_family
from tests.support.random_values import Draw, is_rounded
from tests.support.random_writer import draw_writer
from xla_wasm.hlo.index_map import IndexMap
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.op import Kind, Op, Read
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.reading import reads

LOOSE = {
    "dynamic-slice": "the start is known at run time",
    "dynamic-update-slice": "the start is known at run time",
    "gather": "places are known at run time",
    "scatter": "places are known at run time",
    "select-and-scatter": "a comparison says which element of a window counts",
    "sort": "comparisons say where an element goes",
}
"""Operations of which values decide what they read."""


def coordinates(m: IndexMap) -> list[Array | None]:
    """Returns the value of each coordinate at every index of the domain; None for one that the map leaves open."""
    index = np.indices(m.domain)
    made: list[Array | None] = []
    for c in m.coordinates:
        total = None if c is None else np.full(m.domain, c.offset)
        for k, d, divisor, size in c.terms if c else ():
            total = total + k * (index[d] // divisor % size)
        made.append(total)
    return made


def reaches(m: IndexMap, element: Sequence[int]) -> Array:
    """At which indices of its domain a map may lead to this element."""
    if m.unsplit:
        return np.arange(prod(m.domain)).reshape(m.domain) == np.ravel_multi_index(tuple(element), m.dims)
    hit = np.ones(m.domain, np.bool_)
    for at, own in zip(coordinates(m), element):
        if at is not None:
            hit &= at == own
    return hit


def read_at(x: Instruction, read: Read, element: tuple[int, ...]) -> Array:
    """The elements of the result that read this element of the operand, as its reading states it."""
    m, dims = read.map, leaf_dims(x)
    if read.kind is Kind.WHOLE:
        return np.ones(dims, np.bool_)
    if read.kind is Kind.START:
        return np.arange(prod(dims)).reshape(dims) == np.ravel_multi_index(element, dims)
    if read.kind is Kind.PLACED:
        hit = np.ones(dims, np.bool_)
        for d, at in enumerate(coordinates(m)):
            if at is not None:
                hit &= np.indices(dims)[d] == at[element]
        return hit
    boxes = tuple(range(len(m.domain) - len(read.box), len(m.domain)))
    hit = reaches(m, element)
    windows = hit.any(boxes)
    if x.opcode != "select-and-scatter" or read.kind is not Kind.WINDOW:
        return windows
    # It goes by the places of its source: each reads a window and writes into it.
    found = np.zeros(dims, np.bool_)
    for target in np.ndindex(dims):
        found[target] = (windows & reaches(m, target).any(boxes)).any()
    return found


def some_elements(rng: np.random.Generator, dims: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
    """The first element, the last one, and others."""
    last = prod(dims) - 1
    places = [0, last, *rng.integers(0, last + 1, count)][:count] if last >= 0 else []
    for place in dict.fromkeys(places):
        yield tuple(int(i) for i in np.unravel_index(place, dims))


def changed(
    instance: Instance, operands: Sequence[Array], number: int, element: tuple[int, ...], value: Array
) -> Array:
    """Returns a mask of the results' elements whose bits change with an element of operand `number`."""
    after = [*operands[:number], np.array(operands[number]), *operands[number + 1 :]]
    after[number][element] = value
    found = np.zeros(instance.dims, np.bool_)
    for a, b in zip(instance.results(operands), instance.results(after), strict=True):
        found |= bits(a) != bits(b)
    return found


def check_nothing_else(instance: Instance, rng: np.random.Generator, count: int) -> None:
    """Asserts that results that do not read an element do not change with it."""
    for number, (o, read) in enumerate(zip(instance.x.operands, reads(instance.x), strict=True)):
        assert read.map.dims == (instance.dims if read.kind is Kind.PLACED else o.shape.dimensions)
        for element in some_elements(rng, o.shape.dimensions, count):
            others = ~read_at(instance.x, read, element)
            for value in random_array(rng, (2 if others.any() else 0,), o.shape.element_type):
                wrong = changed(instance, instance.operands, number, element, value) & others
                assert not wrong.any(), (
                    f"{instance.x}: operand {number} at {element} changes {np.argwhere(wrong).tolist()}"
                )


def extremes(dtype: str) -> list[Array]:
    """The least and the greatest number of a type; for floats, numbers far out."""
    if is_rounded(dtype):
        return [np.array(v).astype(DTYPES[dtype]) for v in (-200, 200, np.inf)]
    bits, signed = TYPES[dtype].bits, TYPES[dtype].kind == "signed"
    numbers = (0, 1) if dtype == "pred" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [np.array(n).astype(DTYPES[dtype]) for n in numbers]


def covered(instance: Instance) -> Array:
    """The elements of a result that an operand is placed on: what else they might have been has no say."""
    found = np.zeros(instance.dims, np.bool_)
    for read in reads(instance.x):
        if read.kind is Kind.PLACED:
            at = coordinates(read.map)
            inside = np.all([(a >= 0) & (a < n) for a, n in zip(at, instance.dims)], axis=0)
            found[tuple(a[inside] for a in at)] = True
    return found


def stays_inside(instance: Instance) -> bool:
    """Returns true if no window reaches beyond its operand."""
    windows = [read.map for read in reads(instance.x) if read.kind is Kind.WINDOW]
    return all(
        at is not None and ((at >= 0) & (at < n)).all() for m in windows for at, n in zip(coordinates(m), m.dims)
    )


def check_everything_inside(instance: Instance, rng: np.random.Generator, count: int) -> None:
    """Asserts that results that read an element change with it, for some values of it and of everything else."""
    types = [o.shape.element_type for o in instance.x.operands]
    sizes = [o.shape.dimensions for o in instance.x.operands]
    for number, read in enumerate(reads(instance.x)):
        if (
            None in read.map.coordinates
            and not read.map.unsplit
            or read.kind is Kind.REDUCED
            and not stays_inside(instance)
        ):
            continue  # the map leaves something open, or what it leads to is multiplied with padding
        for element in some_elements(rng, sizes[number], count):
            wanted = read_at(instance.x, read, element) & ~(covered(instance) if read.kind is Kind.MAP else False)
            found = np.zeros(instance.dims, np.bool_)
            for trial in range(90):
                fill = trial % 3
                candidates = [random_array(rng, (), types[number]), *extremes(types[number])]
                operands = [
                    random_array(rng, d, t) if fill == 2 else np.full(d, fill).astype(DTYPES[t])
                    for d, t in zip(sizes, types)
                ]
                value = candidates[trial // 3 % len(candidates)]
                found |= changed(instance, operands, number, element, value)
                if np.array_equal(found, wanted):
                    break
            missing = np.argwhere(wanted & ~found).tolist()
            assert not missing, f"{instance.x}: operand {number} at {element} has no say in {missing}"


@pytest.mark.parametrize("op", READING, ids=lambda op: op.opcode)
def test_only_what_reads_an_element_changes_with_it(op: Op) -> None:
    found = sampled(op.opcode)
    assert found
    for i, instance in enumerate(found):
        check_nothing_else(instance, np.random.default_rng(i), 6)


@pytest.mark.parametrize("op", [op for op in READING if op.opcode not in LOOSE], ids=lambda op: op.opcode)
def test_what_reads_an_element_changes_with_it(op: Op) -> None:
    for i, instance in enumerate(sampled(op.opcode)):
        if _takes_all(instance.x):
            check_everything_inside(instance, np.random.default_rng(i), 3)


def _takes_all(x: Instruction) -> bool:
    """Returns true if no operand is without a say by its nature, unlike the imaginary part of real numbers and operands
    that a reducer forgets; and if it shows, which it hardly does where a sum of products is zero or not."""
    forgets = any(c.root.opcode == "parameter" for c in x.called)
    if x.opcode in ("dot", "convolution") and x.shape.element_type == "pred":
        return all(o.shape.element_type == "pred" for o in x.operands)
    return not forgets and (x.opcode != "imag" or x.operands[0].shape.element_type != x.shape.element_type)


@settings(max_examples=seeds.count(40, 200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_programs_read_what_the_records_say(data: st.DataObject) -> None:
    module, arguments = data.draw(st.sampled_from((draw_writer, draw_family)))(
        Draw(lambda low, high: data.draw(st.integers(low, high)))
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for instance in instances(module, arguments):
        check_nothing_else(instance, rng, 3)
