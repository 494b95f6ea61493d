"""The loop IR's text: every statement, and every field that the emitter reads, is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from tests.support.memory_walk import planned
from tests.support.whole_programs import lowered
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Barrier, Block, Call, Carry, Func, If, Loop, Store, Val
from xla_wasm.loop.text import to_text
from xla_wasm.target import SIMD128, Target


def sample() -> Func:
    """A kernel with every kind of statement."""
    b = Builder("sample", 3, 4, Target.named(SIMD128), frozenset({0}))
    x, y = b.pointer(1), b.pointer(0)
    with b.loop(10, chunked=True) as i:
        b.store(0, i, b.convert(b.pin(b.load(1, i * 2 + 1, "s16")), "f32"), "f32")
    with b.open_loop(5, 4) as loop:
        index = Affine.along(loop)
        first, second = (b.carry(loop, b.const("f32", number), 4) for number in (0, 1))
        loaded = b.load_lanes(x, index, "f32")
        sums = [b.pin(b.add(first.value, loaded)), b.pin(b.mul(second.value, b.splat_lane(loaded, 2)))]
        b.barrier(loop, sums)
        first.next, second.next = b.pin(b.shuffle(sums[0], loaded, (0, 5, 2, 7))), b.pin(b.sub(sums[1], loaded))
    b.store_lanes(y, Affine(40), b.max(first.result, second.result), "f32")
    with b.loop(2, 4, vector=True) as j:
        b.store(0, j * 3 + 60, b.load(1, j * 2, "f32"), "f32")
    with b.repeat() as repeated:
        count = b.carry(repeated, b.const("s32", 3))
        count.next = b.pin(b.sub(count.value, b.const("s32", 1)))
        with b.when(b.gt(count.value, b.const("s32", 1))):
            b.invoke("xw_example", y, count.value)
        repeated.condition = b.pin(b.ne(count.next, b.const("s32", 0)))
    return b.func()


def objects(block: Block) -> Iterator[Any]:
    """Every part of a kernel."""
    yield block
    for s in block.statements:
        yield s
        if isinstance(s, Loop):
            yield from s.carries
            yield from s.inductions.values()
        if isinstance(s, Loop | If):
            yield from objects(s.body)


SHOWN: dict[type, tuple[str, ...]] = {
    Func: ("name", "body", "pointers"),
    Block: ("statements", "guarded"),
    Val: ("op", "args", "dtype", "lanes", "imm", "pinned"),
    Store: ("address", "offset", "value", "dtype", "stride"),
    Loop: ("trips", "step", "lanes", "chunked", "body", "carries", "inductions", "condition"),
    Carry: ("init", "value", "next", "result"),
    Barrier: ("loop", "values"),
    Call: ("symbol", "args"),
    If: ("condition", "body"),
}
NOT_SHOWN = {
    *((Block, "level"), (Block, "control"), (Block, "values"), (Block, "executed")),
    *((Val, "block"), (Call, "touches"), (Call, "cost")),
}
"""Fields that the text leaves out. Its order tells the depth of a block, the values in it already, and the block of a
value, its statements which of them are loops, and how many are executed; facts about a C function are no part of the
code."""


def test_fields_are_known() -> None:
    for kind, names in SHOWN.items():
        declared = {f.name for f in fields(kind)} if kind is not Val else set(Val.__slots__)
        assert declared == {*names, *(field for owner, field in NOT_SHOWN if owner is kind)}


def changed(value: Any, other: Val, loops: list[Loop]) -> Any:
    """Something else in a field."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return {"f32": "f64"}.get(value, f"{value}x")
    if isinstance(value, Val):
        return other
    if value is None:
        return other
    if isinstance(value, Block):
        return Block(value.level, value.statements[:-1], value.values, value.guarded)
    if isinstance(value, Loop):
        return next(loop for loop in loops if loop is not value)
    if isinstance(value, dict):
        return dict(list(value.items())[:-1]) if value else {1: other}
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        return (*value[:-1], value[-1] + 1)
    return value[:-1] if value else type(value)([other])


def test_every_field_is_in_the_text() -> None:
    text = to_text(sample())
    count = len(list(objects(sample().body))) + 1
    seen: dict[type, set[str]] = {kind: set() for kind in SHOWN}
    for number in range(count):
        kind = type([sample(), *objects(sample().body)][number])
        for field in SHOWN[kind]:
            func = sample()
            parts = [func, *objects(func.body)]
            part = parts[number]
            assert type(part) is kind
            old = getattr(part, field)
            if kind is Val and (part.op in ("const", "induction") and field in ("args", "dtype", "lanes", "pinned")):
                continue  # they stand where they are used, as they are
            if kind is Val and (
                field == "args" and not part.args or field == "imm" and (old is None or isinstance(old, Carry))
            ):
                continue
            if kind is Loop and (
                field in ("carries", "inductions") and not old or field == "condition" and old is None
            ):
                continue
            if kind is Loop and part.condition is not None and field in ("trips", "step", "lanes", "inductions"):
                continue  # no count, and no variable
            if kind is Carry and field == "value" or kind is Block and not part.statements and field == "statements":
                continue  # its name everywhere
            other = next(p for p in parts if isinstance(p, Val) and p.op in ("pointer", "load", "add") and p is not old)
            setattr(part, field, changed(old, other, [p for p in parts if isinstance(p, Loop)]))
            assert to_text(func) != text, (kind.__name__, field, getattr(part, "op", ""))
            seen[kind].add(field)
    assert {kind: set(names) - seen[kind] for kind, names in SHOWN.items()} == {
        k: {"value"} if k is Carry else set() for k in SHOWN
    }


@pytest.mark.parametrize("name", ["digits_train_adam", "lstm_gradient"])
def test_equal_texts_are_equal_code(name: str) -> None:
    """Kernels that differ in code differ in text, with one program's kernels made twice."""
    code: dict[str, bytes] = {}
    for _ in range(2):
        for func in planned(lowered(name)[0]).funcs.values():
            assert code.setdefault(to_text(func), emit(func).body()) == emit(func).body()
