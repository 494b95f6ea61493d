"""The loop IR's verifier: it accepts what the compiler makes, and finds damage that is put into a kernel by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import pytest

import xla_wasm
from xla_wasm.compiler import trace
from xla_wasm.hlo.ir import Module
from xla_wasm.loop.affine import ZERO, Affine, Index
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.ir import Barrier, Block, Call, Carry, Func, If, Loop, Store, Val
from xla_wasm.loop.tiling import Tile, nest_in_tiles
from xla_wasm.loop.verify import Argument, KernelError, verify
from xla_wasm.plan.plan import Launch
from xla_wasm.plan.verify import verify_plan
from xla_wasm.target import SIMD128, Target

ARGUMENTS = (Argument(400, 448, True), Argument(402, 448, False), Argument(40, 64, True))


def sample() -> Func:
    """A kernel with every kind of statement, which fits `ARGUMENTS` exactly: a result, an input, and memory of its
    own."""
    b = Builder("sample", 3, 4, Target.named(SIMD128), frozenset({0, 2}))
    with b.loop(100, chunked=True) as i:
        b.store(0, i, b.convert(b.load(1, i * 2 + 1, "s16"), "f32"), "f32")
    with b.open_loop(20, 4) as loop:
        index = Affine.along(loop)
        first, second = (b.carry(loop, b.const("f32", number), 4) for number in (0, 1))
        loaded = b.load_lanes(b.pointer(1), index, "f32")
        sums = [b.pin(b.add(first.value, loaded)), b.pin(b.mul(second.value, b.splat_lane(loaded, 2)))]
        b.barrier(loop, sums)
        first.next, second.next = b.pin(b.shuffle(sums[0], loaded, (0, 5, 2, 7))), b.pin(b.sub(sums[1], loaded))
    b.store_lanes(b.pointer(0), Affine(96), b.max(first.result, second.result), "f32")
    with b.loop(2, 4, vector=True) as j:
        b.store(0, j * 3 + 3, b.add(b.load(1, j * 2, "f32"), b.load(2, j, "f32")), "f32")
    with b.repeat() as repeated:
        count = b.carry(repeated, b.const("s32", 3))
        count.next = b.pin(b.sub(count.value, b.const("s32", 1)))
        with b.when(b.gt(count.value, b.const("s32", 1))):
            b.invoke("xw_example", b.pointer(0), count.value)
        repeated.condition = b.pin(b.ne(count.next, b.const("s32", 0)))
    start = b.load(1, Affine(2), "s32")
    clamped = b.min(b.max(start, b.const("s32", 0)), b.const("s32", 99))
    b.store(0, Affine(0, (), ((clamped, 1),)), b.const("f32", 2), "f32")
    with b.loop(11) as n:
        (at, _), *_ = n.loops
        with b.when(b.not_(b.eq(b.variable(at), b.const("s32", 10)))):
            b.store(2, n, b.const("f32", 1), "f32")
    return b.func()


def statements(block: Block) -> Iterator[tuple[Block, Any]]:
    """Every statement with its block."""
    for s in block.statements:
        yield block, s
        if isinstance(s, Loop | If):
            yield from statements(s.body)


class Parts:
    """The parts of the sample by what they are."""

    def __init__(self, func: Func):
        self.func = func
        self.all = list(statements(func.body))
        self.chunked, self.counted, self.vectors, self.repeated, self.last = (
            s for _, s in self.all if isinstance(s, Loop)
        )
        self.element, self.sums, self.strided, self.clamped, self.guarded = (
            s for _, s in self.all if isinstance(s, Store)
        )
        self.when, self.unless = (s for _, s in self.all if isinstance(s, If))
        self.invoke = next(s for _, s in self.all if isinstance(s, Call))
        self.barrier = next(s for _, s in self.all if isinstance(s, Barrier))

    def val(self, op: str, dtype: str = "", number: int = 0) -> Val:
        """The value of an operation, by its number among those of its kind."""
        return [s for _, s in self.all if isinstance(s, Val) and s.op == op and dtype in (s.dtype, "")][number]

    def block(self, val: Any) -> Block:
        return next(block for block, s in self.all if s is val)


def test_the_sample_is_sound() -> None:
    verified = verify(sample(), ARGUMENTS)
    assert verified.unproven == [] and len(verified.accesses) == 10
    verify(sample())


Damage = Callable[[Parts], object]


def move_first(p: Parts, statement: Any) -> None:
    block = p.block(statement)
    block.statements.remove(statement)
    block.statements.insert(0, statement)


def alone(op: str, args: tuple[Val, ...], dtype: str, lanes: int = 1, imm: Any = None) -> Damage:
    """One more value at the end of the kernel."""

    def put(p: Parts) -> None:
        p.func.body.statements.append(Val(op, args, dtype, lanes, imm, p.func.body))

    return put


def const(p: Parts, dtype: str, bits: int = 0) -> Val:
    val = Val("const", (), dtype, 1, bits, p.func.body)
    p.func.body.statements.insert(0, val)
    return val


def assign(part: Callable[[Parts], Any], **fields: Any) -> Damage:
    """Sets fields of a part."""

    def put(p: Parts) -> None:
        for name, value in fields.items():
            setattr(part(p), name, value(p) if callable(value) else value)

    return put


def load_and_store(p: Parts) -> None:
    """A load that is not pinned, of what its block writes."""
    load = p.val("load_vector", "f32", 1)
    load.pinned = False
    p.strided.address, p.strided.offset, p.strided.stride = load.args[0], 0, 1


def barrier_in_range(p: Parts) -> None:
    p.chunked.chunked, p.counted.chunked = False, True


def carry_in_range(p: Parts) -> None:
    value = Val("carry", (), "f32", 1, None, p.chunked.body)
    value.imm = Carry(const(p, "f32"), value, value, value)
    p.chunked.carries.append(value.imm)


def vector_condition(p: Parts) -> None:
    alone("splat", (const(p, "pred"),), "pred", 4)(p)
    p.func.body.statements.append(If(p.func.body.statements[-1], Block(1, guarded=True)))


def longer_range(p: Parts) -> None:
    p.chunked.trips = 101


def below(p: Parts) -> None:
    """An address that the trips lower."""
    address = p.val("load", "s16").args[0]
    down = p.chunked.inductions[-4] = Val("induction", (), "s32", 1, -4, p.chunked.body)
    address.args = (address.args[0], down)


def scalar_operand(p: Parts) -> None:
    difference = p.val("sub", "f32")
    difference.args = difference.args[0], const(p, "f32")


def one_value_for_two(p: Parts) -> None:
    p.barrier.values[1] = p.counted.carries[1], p.barrier.values[0][1]


def sum_of_addresses(p: Parts) -> None:
    p.val("add", "u32", 2).args = p.val("pointer"), p.val("pointer")


def into_if(p: Parts) -> None:
    body = p.counted.body
    body.statements.remove(p.barrier)
    inner = If(const(p, "pred", 1), Block(body.level + 1, [p.barrier], guarded=True))
    body.statements.insert(len(body.statements) - 2, inner)


def after_barrier(p: Parts) -> None:
    """A carry's value is needed behind the barrier that took its local."""
    p.counted.carries[0].next = p.counted.carries[0].value


def late_operand(p: Parts) -> None:
    """A value that waits on the stack for its use behind a barrier, which overwrites what it is made of."""
    body, carry = p.counted.body, p.counted.carries[0]
    waiting = Val("neg", (carry.value,), "f32", 4, None, body)
    used = Val("abs", (waiting,), "f32", 4, None, body)
    body.statements.insert(0, waiting)
    body.statements.append(used)
    carry.next = used


def without_guard(p: Parts) -> None:
    p.last.body.statements.remove(p.unless)
    p.last.body.statements += p.unless.body.statements


def unclamp(p: Parts) -> None:
    most = p.val("min", "s32")
    most.args = most.args[0].args[0], most.args[1]


def division(p: Parts) -> None:
    alone("div", (const(p, "s32", 7), p.val("load", "s32")), "s32")(p)


DAMAGE: dict[str, tuple[Damage, str]] = {
    "an unknown operation": (assign(lambda p: p.val("mul"), op="fuse"), r"'fuse' is no operation"),
    "operands of two types": (
        lambda p: p.val("load_vector", "f32").__setattr__("dtype", "s32"),
        r"operand 2 v\d+ is s32x4.*add of f32",
    ),
    "a type without this operation": (
        lambda p: alone("sqrt", (const(p, "s32"),), "s32")(p),
        r"sqrt does not work on s32",
    ),
    "too few operands": (
        assign(lambda p: p.val("sub", "f32"), args=lambda p: p.val("sub", "f32").args[:1]),
        r"takes 2 operands, not 1",
    ),
    "too many operands": (
        assign(lambda p: p.val("mul"), args=lambda p: p.val("mul").args * 2),
        r"takes 2 operands, not 4",
    ),
    "another number of lanes": (assign(lambda p: p.val("mul"), lanes=2), r"has 4 lanes, not 2"),
    "a scalar among vectors": (scalar_operand, "1 lanes, not 4"),
    "more lanes than a vector has": (
        lambda p: alone("splat", (const(p, "s32"),), "s32", 8)(p),
        r"s32x8: a vector has not so many lanes",
    ),
    "a splat to a scalar": (
        lambda p: alone("splat", (const(p, "s32"),), "s32")(p),
        r"has 1 lanes, not those of a vector",
    ),
    "a lane that is not there": (assign(lambda p: p.val("splat_lane"), imm=4), r"4 is no lane of splat_lane"),
    "a shuffle of too few lanes": (
        assign(lambda p: p.val("shuffle"), imm=(0, 5, 2)),
        r"\(0, 5, 2\) is no lanes of shuffle",
    ),
    "a shuffle of lanes that are not there": (
        assign(lambda p: p.val("shuffle"), imm=(0, 5, 2, 8)),
        r"no lanes of shuffle",
    ),
    "a conversion from another type": (assign(lambda p: p.val("convert"), imm="u32"), r"'u32' is no type of convert"),
    "a bitcast to another register": (assign(lambda p: p.val("bitcast"), dtype="s64"), r"is no type of bitcast"),
    "a buffer that is not there": (assign(lambda p: p.val("pointer"), imm=3), r"3 is no buffer of pointer"),
    "a constant that is too wide": (lambda p: alone("const", (), "s32", 1, 1 << 32)(p), r"is no bits of const"),
    "a use before the definition": (lambda p: move_first(p, p.val("convert")), r"v\d+ is used before it is defined"),
    "a use outside the block": (
        assign(lambda p: p.sums, value=lambda p: p.val("shuffle")),
        r"used outside the block that defines it",
    ),
    "a value in two places": (lambda p: p.func.body.statements.append(p.val("max", "f32")), r"is defined twice"),
    "a value in another block": (
        assign(lambda p: p.val("mul"), block=lambda p: p.func.body),
        r"stands in another block",
    ),
    "the variable of a closed loop": (
        assign(lambda p: p.sums, address=lambda p: p.val("add", "u32").args[1]),
        r"no variable of a loop that is open",
    ),
    "a multiple that the loop lacks": (lambda p: p.chunked.inductions.clear(), r"no variable of a loop that is open"),
    "a wrong multiple": (
        lambda p: p.chunked.inductions.update({8: p.chunked.inductions[4]}),
        r"loop i1: its multiple 8",
    ),
    "a carry without a next value": (
        lambda p: setattr(p.counted.carries[1], "next", None),
        r"loop i2, next value of v\d+: is not set",
    ),
    "a next value of another type": (
        lambda p: setattr(p.repeated.carries[0], "next", p.repeated.condition),
        r"is s32, but its next value v\d+ is pred",
    ),
    "a first value of other lanes": (
        lambda p: setattr(p.counted.carries[0], "init", const(p, "f32")),
        r"is f32x4, but its initial value",
    ),
    "a result of another type": (
        lambda p: setattr(p.counted.carries[0].result, "dtype", "s32"),
        r"its result v\d+' is s32x4",
    ),
    "a carry outside its loop": (
        assign(lambda p: p.sums, value=lambda p: p.counted.carries[0].value),
        r"is carried by no loop that is open",
    ),
    "a carry of another loop": (
        lambda p: p.repeated.carries.append(Carry(const(p, "s32"), *[p.counted.carries[0].value] * 2)),
        r"loop i4",
    ),
    "a result before its loop": (lambda p: move_first(p, p.val("max", "f32")), r"v\d+' is used before it is defined"),
    "a stored type that is not the value's": (
        assign(lambda p: p.element, dtype="s32"),
        r"stores s32, but the value is f32",
    ),
    "a vector stored without a stride": (assign(lambda p: p.sums, stride=0), r"4 lanes with stride 0"),
    "a scalar stored with a stride": (assign(lambda p: p.element, stride=1), r"1 lanes with stride 1"),
    "a store to no address": (
        assign(lambda p: p.element, address=lambda p: const(p, "s32")),
        r"the address s32:0x0 is s32, not u32",
    ),
    "an offset below zero": (assign(lambda p: p.sums, offset=-16), r"the offset -16 is negative"),
    "a condition that is a number": (
        assign(lambda p: p.when, condition=lambda p: const(p, "s32")),
        r"the condition s32:0x0 is s32, not pred",
    ),
    "a condition of many lanes": (vector_condition, r"is predx4, not pred"),
    "a body without a guard": (lambda p: setattr(p.when.body, "guarded", False), r"its body is no guarded block"),
    "a loop without trips": (assign(lambda p: p.counted, trips=0), r"loop i2: has 0 trips"),
    "lanes that do not divide a step": (
        assign(lambda p: p.vectors, step=3),
        r"loop i3: 4 lanes do not divide its step 3",
    ),
    "a loop that repeats on a number": (
        assign(lambda p: p.repeated, condition=lambda p: p.repeated.carries[0].next),
        r"the condition v\d+ is s32",
    ),
    "a barrier in a guarded block": (into_if, r"does not stand directly in the body of its loop"),
    "a range without a count": (assign(lambda p: p.repeated, chunked=True), r"loop i4: cannot be chunked here"),
    "a range that carries something": (carry_in_range, r"loop i1: is chunked, and carries something"),
    "a barrier in a range": (barrier_in_range, r"barrier of i2: its loop has no constant count"),
    "a barrier that forgets a carry": (
        lambda p: p.barrier.values.pop(),
        r"has not one value for each of its loop's carries",
    ),
    "a barrier with one value for two": (one_value_for_two, r"gives one value to two"),
    "a value whose local a barrier took": (after_barrier, r"is used after barrier of i2 took its local"),
    "a value computed when its operand is gone": (
        late_operand,
        r"= neg\(v\d+\): is computed after barrier of i2 took the local of v\d+",
    ),
    "an address that is a sum of two": (sum_of_addresses, r"sum of two buffers"),
    "a vector passed to C": (
        assign(lambda p: p.invoke, args=lambda p: (p.counted.carries[0].result,)),
        r"invoke xw_example: v\d+' is f32x4, no scalar",
    ),
    "a load that may come after what changes it": (
        load_and_store,
        r"is not pinned, and its block writes what it reads",
    ),
    "one trip too many": (longer_range, r"reaches bytes 2 to 404 of argument 1, which has 402"),
    "one element too far": (
        assign(lambda p: p.element, offset=4),
        r"store f32 .* reaches bytes 4 to 404 of argument 0, which has 400",
    ),
    "before the beginning": (below, r"reaches bytes -394 to"),
    "a vector past the padding": (
        assign(lambda p: p.sums, offset=440),
        r"reaches bytes 440 to 456 of argument 0, which has 448",
    ),
    "too long a stride": (assign(lambda p: p.strided, stride=40), r"reaches bytes 12 to \d+ of argument 0"),
    "a store into what is only read": (
        assign(lambda p: p.clamped, address=lambda p: p.val("pointer")),
        r"writes argument 1, which is only read",
    ),
    "a division that may trap": (division, r"= div\(.*: may trap: its divisor may be 0"),
    "no guard around the last trip": (without_guard, r"store f32 .* reaches bytes 0 to 44 of argument 2, which has 40"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(what: str) -> None:
    func = sample()
    damage, message = DAMAGE[what]
    damage(Parts(func))
    with pytest.raises(KernelError, match=message) as error:
        verify(func, ARGUMENTS)
    assert re.match(r"kernel sample: .*(v\d|p\d|\w+:0x|loop|barrier|invoke|store|if|the kernel)", str(error.value))


def test_a_place_that_nothing_clamps_is_reported() -> None:
    func = sample()
    unclamp(Parts(func))
    (report,) = verify(func, ARGUMENTS).unproven
    assert re.match(r"kernel sample: store f32 .*: bytes -\d+ to 400 of 400 of argument 0, by v\d+", report)


@pytest.mark.parametrize("other", [0, 1])
def test_lanes_of_an_unknown_vector_are_different_numbers(other: int) -> None:
    """A lane less itself is 0, less another one it is anything."""
    b = Builder("lanes", 2, 4, Target.named(SIMD128), frozenset({0}))
    numbers = b.load_lanes(b.pointer(1), Affine(0), "s32")
    at = b.pin(b.sub(b.lane(numbers, 0), b.lane(numbers, other)))
    b.store(0, Affine(0, (), ((at, 1),)), b.const("s32", 1), "s32")
    reports = verify(b.func(), [Argument(4, 4, True), Argument(16, 16, False)]).unproven
    assert bool(reports) == bool(other), reports


@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "s8"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_divisions_that_never_trap(dtype: str, lanes: int) -> None:
    """Only what excludes 0, and -1 under the least number of a register, lets a division stand."""

    def checked(*excluded: str) -> None:
        b = Builder("division", 3, 2, Target.named(SIMD128), frozenset({0}))

        def one(i: Affine) -> None:
            x, y = (b.load(k, i, dtype) for k in (1, 2))
            tests = {
                "zero": b.eq(y, b.const(dtype, 0)),
                "minus one": b.eq(y, b.const(dtype, -1)),
                "overflow": b.and_(b.eq(x, b.const(dtype, 1 << (int(dtype[1:]) - 1))), b.eq(y, b.const(dtype, -1))),
                "another": b.eq(x, b.const(dtype, 0)),
            }
            condition = tests[excluded[0]]
            for name in excluded[1:]:
                condition = b.or_(condition, tests[name])
            b.store(0, i, b.rem(x, b.select(condition, b.const(dtype, 1), y)), dtype)

        if lanes > 1:
            b.vectorized(8, one)
        else:
            with b.loop(8) as i:
                one(i)
        verify(b.func(), [Argument(64, 64, k == 0) for k in range(3)])

    checked("zero", "overflow")
    checked("minus one", "zero")
    for excluded in (("another",), ("overflow",), ("minus one",)):
        with pytest.raises(KernelError, match="may trap"):
            checked(*excluded)
    if dtype in ("s32", "s64"):
        with pytest.raises(KernelError, match="may trap"):
            checked("another", "zero")
    else:
        checked("another", "zero")


def test_the_number_of_buffers() -> None:
    with pytest.raises(KernelError, match="kernel sample: the kernel: takes 3 buffers, not 2"):
        verify(sample(), ARGUMENTS[:2])


# --- what may lie where ---------------------------------------------------------------------------------------------


def mapped(read: Callable[[Affine], Affine], late: bool = False, rows: int = 1) -> Func:
    """A kernel that writes each element of a row from one that it reads, perhaps only after that has been written."""
    b = Builder("mapped", 2, 4, Target.named(SIMD128), frozenset({0}))
    with b.loop(rows) as r, b.loop(8) as i:
        at = r * 8 + i
        if late:
            b.store(0, at, b.const("f32", 0), "f32")
        b.store(0, at + (8 * rows if late else 0), b.load(1, read(at), "f32"), "f32")
    return b.func()


@pytest.mark.parametrize("rows", [1, 5])
def test_a_result_may_lie_where_each_element_is_read_first(rows: int) -> None:
    size = 8 * rows
    arguments = (Argument(64 * rows, 64 * rows, True), Argument(64 * rows, 64 * rows, False))
    assert verify(mapped(lambda i: i, rows=rows), arguments).reads_before_writing(0, 1) == ""
    for read in (lambda i: i * -1 + (size - 1), lambda i: i + 1, lambda i: i * 2):
        found = verify(mapped(read, rows=rows), arguments).reads_before_writing(0, 1)
        assert re.match(r"kernel mapped: v\d+: f32 = load.* may read what store f32 .* has written", found)
    assert "may read" in verify(mapped(lambda i: i, late=True, rows=rows), arguments).reads_before_writing(0, 1)


@pytest.mark.parametrize(("pitch", "sound"), [(11, True), (10, False)])
def test_rows_and_vectors_in_place(pitch: int, sound: bool) -> None:
    """Whole vectors and the rest of each row, and the same with rows that overlap."""
    b = Builder("rows", 2, 4, Target.named(SIMD128), frozenset({0}))
    with b.loop(6) as r:
        b.vectorized(11, lambda i: b.store(0, r * pitch + i, b.neg(b.load(1, r * pitch + i, "f32")), "f32"))
    found = verify(b.func(), (Argument(264, 320, True), Argument(264, 320, False))).reads_before_writing(0, 1)
    assert (found == "") == sound


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dims", [(4, 4), (5, 6), (21, 35), (70, 37), (3, 9, 18)])
@pytest.mark.parametrize(("shift", "pitch"), [(0, 0), (1, 0), (None, 0), (0, -1)])
def test_tiles_in_place(dims: tuple[int, ...], shift: int | None, pitch: int, wide: bool) -> None:
    """Tiles whose elements are read where they are written; the one before that instead, the row before, or rows
    that overlap."""
    b = Builder("tiles", 2, 4, Target.named(SIMD128), frozenset({0}))
    *_, height, length = dims
    strides = [height * length, length + pitch, 1][-len(dims) :]

    def element(index: Index, tile: Tile | None) -> None:
        at = sum([i * stride for i, stride in zip(index, strides)], ZERO)
        before = at if shift is None else at + length - shift
        b.store(0, at + length, b.neg(b.load(1, before, "f32")), "f32")

    nest_in_tiles(b, dims, len(dims) - 2, element, wide=wide)
    size = 4 * (prod(dims) + 2 * length)
    found = verify(b.func(), (Argument(size, size + 64, True), Argument(size, size + 64, False)))
    assert (found.reads_before_writing(0, 1) == "") == (shift == pitch == 0)


MODULE = """HloModule m
ENTRY e {
  x = f32[10,6] parameter(0)
  y = f32[6] parameter(1)
  s = f32[10,6] sine(x)
  b = f32[10,6] broadcast(y), dimensions={1}
  a = f32[10,6] add(s, b)
  w = f32[6,4] constant({{1,2,3,4},{1,2,3,4},{1,2,3,4},{1,2,3,4},{1,2,3,4},{1,2,3,4}})
  d = f32[10,4] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[10,4], f32[10,6]) tuple(d, a)
}
"""


def test_a_plan_is_verified() -> None:
    plan = trace(Module.from_text(MODULE), xla_wasm.Options()).plan
    verify_plan(plan)
    step = next(s for s in plan.entries if isinstance(s, Launch) and s.func.name == "add")
    whole, arguments = step.arguments[1], list(step.arguments)
    smaller = type(whole)(whole.buffer, whole.dtype, (9, 6), whole.strides, whole.offset)
    for damaged, message in (
        ([arguments[0], smaller, arguments[2]], r"kernel add: .* of argument 1, which has 216"),
        ([arguments[0], arguments[0], arguments[2]], r"kernel add in a: writes argument 0 where argument 1 lies"),
        (arguments[:2], r"kernel add: the kernel: takes 3 buffers, not 2"),
    ):
        step.arguments, step.may_overwrite = damaged, ()
        with pytest.raises(KernelError, match=message):
            verify_plan(plan)
    step.arguments, step.written = arguments, 0
    with pytest.raises(KernelError, match=r"writes argument 0, which is only read"):
        verify_plan(plan)


def test_tests_verify_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler whose loads are one row off does not get past any test that compiles."""
    load = Builder.load_at
    monkeypatch.setattr(
        Builder, "load_at", lambda self, base, index, *args, **more: load(self, base, index + 24, *args, **more)
    )
    with pytest.raises(KernelError, match="reaches bytes"):
        xla_wasm.compile(Module.from_text(MODULE))
    monkeypatch.delenv("XLA_WASM_VERIFY")
    xla_wasm.compile(Module.from_text(MODULE))
