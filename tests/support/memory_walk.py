"""Walks through memory plans: every byte of memory knows what was last written there.

A plan is walked step by step, through loops and branches in several ways. A write puts a new mark on its bytes, in
memory and in the buffer's own account; a read must find in memory the marks of the account, or something else lies
there.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array
from xla_wasm.passes import pipeline
from xla_wasm.passes.clone import clone
from xla_wasm.plan.buffer import Buffer, View
from xla_wasm.plan.build import Setting, plan_module
from xla_wasm.plan.kernel import KernelCache
from xla_wasm.plan.memory import place
from xla_wasm.plan.plan import Ask, Branch, Copy, Halt, Jump, Launch, Plan, entries_of
from xla_wasm.target import Target

BASE = 4096
VECTOR = 16
UPDATES = ("dynamic_update_slice", "scatter")
"""Kernels that write only parts of a result that is there already."""

Choice = Callable[[int, int], int]
"""From a step's number and a count of ways to go on, the way taken."""


def planned(
    module: Module, weights: tuple[int, ...] = (), state: dict[int, int] | None = None, poured: int | None = None
) -> Plan:
    """The plan of a module, every buffer in its place, copies that come to nothing still in it."""
    module = clone(module)
    pipeline.run(module)
    target, setting = Target.named("simd128", "wasmtime"), Setting(weights, state or {}, poured=poured, one_by_one=True)
    return plan_module(module, KernelCache(target), lambda plan: place(plan, BASE), setting)


def element_bytes(view: View) -> Array:
    """The places in its buffer of all bytes of an array that may have gaps."""
    size = TYPES[view.dtype].bytes
    places = np.array([view.byte_offset])
    for length, stride in zip(view.dims, view.strides):
        places = np.add.outer(places, np.arange(length) * stride * size).reshape(-1)
    return np.add.outer(places, np.arange(size)).reshape(-1)


class Walk:
    """One walk through a plan: `memory` holds a mark per byte, `accounts` what each buffer should find in its bytes."""

    def __init__(self, plan: Plan, choose: Choice):
        self.plan = plan
        self.choose = choose
        self.marks = 0
        self.memory = np.zeros(
            max(b.root().address + b.bytes for b in plan.buffers) + 1024 if plan.buffers else BASE, np.int32
        )
        self.accounts: dict[Buffer, Array] = {b: np.full(b.bytes, -1, np.int32) for b in plan.buffers}

    def new_mark(self) -> int:
        self.marks += 1
        return self.marks

    def write(self, view: View, what: str) -> None:
        """The view gets new content; a vector may spill a little beyond it."""
        assert view.address >= BASE, f"{what} writes {view}, which has no place"
        mark = self.new_mark()
        if not view.dense:
            places = element_bytes(view)
            self.accounts[view.buffer][places] = mark
            self.memory[view.buffer.root().address + places] = mark
            return
        start, end = view.byte_offset, view.byte_offset + view.bytes
        self.accounts[view.buffer][start:end] = mark
        spill = -(-(view.address + view.bytes) // VECTOR) * VECTOR
        self.memory[view.address : spill] = -mark
        self.memory[view.address : view.address + view.bytes] = mark

    def read(self, view: View, what: str) -> Array:
        """The marks of the view's bytes, which must be what was written there last."""
        start, end = (view.byte_offset, view.byte_offset + view.bytes) if view.dense else (0, view.buffer.bytes)
        base = view.buffer.root().address
        expected, found = self.accounts[view.buffer][start:end], self.memory[base + start : base + end]
        assert np.all(expected >= 0), f"{what} reads {view}, which nobody wrote"
        assert np.array_equal(expected, found), f"{what} reads {view}, but something else lies there"
        return found.copy()

    def kernel(self, step: Launch | Copy | Ask) -> None:
        outputs, inputs = step.arguments[: step.written], step.arguments[step.written :]
        if isinstance(step, Copy):
            (target,), (source,) = outputs, inputs
            marks = self.read(source, step.name)
            self.memory[target.address : target.address + target.bytes] = marks
            self.accounts[target.buffer][target.byte_offset : target.byte_offset + target.bytes] = marks
            return
        scratch = [v for v in inputs if v.buffer.name == "row"]
        for number, view in enumerate(step.arguments):
            if number < step.written:
                if isinstance(step, Launch) and step.func.name.startswith(UPDATES):
                    self.read(view, step.name)
                clashes = [o for k, o in enumerate(outputs) if k != number and overlap(o, view)]
            elif view in scratch:
                clashes = [o for o in step.arguments if o is not view and overlap(o, view)]
            else:
                self.read(view, step.name)
                clashes = [
                    o
                    for k, o in enumerate(outputs)
                    if overlap(o, view)
                    and not ((k, number) in step.may_overwrite and (view.address, view.bytes) == (o.address, o.bytes))
                ]
            assert not clashes, f"{step.name}: {view} overlaps {clashes[0]}, which the same step writes"
        for view in (*outputs, *scratch):
            self.write(view, step.name)

    def init(self, source: Buffer | None) -> None:
        """The steps of `init` that read a weight, a poured constant, or constants alone."""
        for step in self.plan.inits[source].steps if source in self.plan.inits else ():
            self.kernel(step)

    def start(self) -> None:
        """Carries out the steps that come before the first run: constants are written, and groups of `init` run."""
        poured = self.plan.poured
        for buffer in [b for b in self.plan.buffers if b not in poured] + poured:
            if buffer.data is not None and buffer.bytes:
                self.write(View(buffer, "u8", (buffer.bytes,), (1,)), "start")
            if buffer in poured:
                self.init(buffer)
        self.init(None)

    def set_weights(self) -> None:
        for buffer in self.plan.weights:
            self.write(View(buffer, "u8", (buffer.bytes,), (1,)), "set")
            self.init(buffer)

    def run(self, state: dict[int, int]) -> None:
        """One run of the program: inputs in, steps, results out."""
        for i, view in enumerate(self.plan.parameters):
            if i not in state and view.buffer not in self.plan.weights:
                self.write(View(view.buffer, "u8", (view.buffer.bytes,), (1,)), "the host")
        at, steps = 0, entries_of(self.plan.steps, joined=False)[0]
        states = [self.plan.parameters[i] for i in state]
        before = [self.read(view, "a state") for view in states]
        while not isinstance(step := steps[at], Halt):
            if isinstance(step, Ask):
                same = all(np.array_equal(self.read(view, step.name), marks) for view, marks in zip(states, before))
                assert same, f"{step.name}: the host may end the run, but a state has changed"
            if isinstance(step, Launch | Copy | Ask):
                self.kernel(step)
                at += 1
                continue
            assert isinstance(step, Jump)
            for view in step.arguments:
                self.read(view, step.name)
            ways = [at + 1, *step.targets] if isinstance(step, Branch) else step.targets
            at = ways[self.choose(at, len(ways))] if step.arguments else ways[0]
        for view in self.plan.results:
            self.read(view, "the host")


def overlap(a: View, b: View) -> bool:
    """Returns true if two views have bytes in common."""
    return a.address < b.address + b.extent and b.address < a.address + a.extent


def twice() -> Choice:
    """Through every loop twice, then out; branches in turn."""
    visits: dict[int, int] = {}

    def choose(at: int, ways: int) -> int:
        visits[at] = visits.get(at, -1) + 1
        return (0, 0, 1)[visits[at] % 3] if ways == 2 else visits[at] % ways

    return choose


def by_chance(seed: int) -> Choice:
    rng = random.Random(seed)
    return lambda at, ways: rng.randrange(ways)


def check(plan: Plan, state: dict[int, int] | None = None) -> None:
    """Walks a plan in several ways, each with two runs and the weights set anew between them."""
    for choose in (twice(), lambda at, ways: ways - 1, by_chance(1), by_chance(2)):
        walk = Walk(plan, choose)
        walk.start()
        walk.set_weights()
        for i in state or {}:
            walk.write(plan.parameters[i], "set")
        walk.run(state or {})
        walk.set_weights()
        walk.run(state or {})
