"""loop.Func -> wasm.Func.

Values used once where they stand are left on the stack; all others get a local. Scalar constants are written anew at
each use. Vectors of one constant get a local before all loops: V8 would make them anew in each trip, which takes it
longer than to fetch one that it had to spill, and Cranelift takes them from memory either way.
"""

from __future__ import annotations

from ..hlo.types import TYPES
from ..target import STOP
from ..wasm.func import Func as WasmFunc
from .ir import Barrier, Block, Call, Carry, Func, Loop, Store, Val
from .ops import lane_bytes, register
from .pieces import looks
from .uses import Uses, count_uses
from .values import Values


def emit(func: Func) -> WasmFunc:
    """The wasm function of a kernel, of type (args, begin, end)."""
    return _Emitter(func).run()


class _Emitter(Values):
    def __init__(self, func: Func):
        super().__init__(WasmFunc(func.name, ("i32", "i32", "i32"), ()))
        self.func = func
        self.uses: Uses = count_uses(func)
        self.looks = looks(func)
        self.firsts = {loop: first for first, loop in func.ranges()}
        self.counters: dict[Loop, tuple[int, int]] = {}
        """The local and the final value of the counters of loops with barriers."""

    def run(self) -> WasmFunc:
        self.block(self.func.body)
        return self.out

    # --- statements ---------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Val):
                if statement in self.uses.kept:
                    self.compute(statement)
                    self.set_local(statement)
            elif isinstance(statement, Store):
                self.store(statement)
            elif isinstance(statement, Loop):
                self.loop(statement)
            elif isinstance(statement, Barrier):
                self.barrier(statement)
            elif isinstance(statement, Call):
                for arg in statement.args:
                    self.value(arg)
                self.out.call(statement.symbol)
            else:
                self.value(statement.condition)
                self.op("if", None)
                self.block(statement.body)
                self.op("end")

    def set_local(self, val: Val) -> None:
        carry = self.uses.in_place.get(val)
        local = self.out.local(register(val.dtype, val.lanes)) if carry is None else self.locals[carry.value]
        self.locals[val] = local
        self.op("local.set", local)

    def loop(self, loop: Loop) -> None:
        for carry in loop.carries:
            self.value(carry.init)
            self.set_local(carry.value)
            self.locals[carry.result] = self.locals[carry.value]
        if loop.condition is not None:
            self.repeat(loop, loop.condition)
            return
        inductions = {c: v for c, v in loop.inductions.items() if v in self.uses.counts}
        if not any(c > 0 for c in inductions):
            inductions[1] = Val("induction", (), "s32", 1, 1, loop.body)
        begin, end = self.bounds(loop) if loop.chunked else (None, None)
        if loop.chunked:
            self.op("block", None)
            self.op("local.get", begin)
            self.op("local.get", end)
            self.op("i32.ge_s")
            self.op("br_if", 0)
        for c, val in inductions.items():
            self.scaled(c * loop.step, begin)
            self.set_local(val)
        counter = min(c for c in inductions if c > 0)
        limit = -1
        if loop.chunked:
            self.scaled(counter * loop.step, end)
            limit = self.out.local("i32")
            self.op("local.set", limit)
        exits = any(isinstance(statement, Barrier) for statement in loop.body.control)
        if exits:
            assert not loop.chunked, "a barrier needs a constant limit"
            self.counters[loop] = self.locals[inductions[counter]], counter * loop.step * loop.trips
            self.op("block", None)
        self.op("loop", None)
        self.look(loop)
        self.block(loop.body)
        self.advance(loop)
        for c, val in [*((c, v) for c, v in inductions.items() if c != counter), (counter, inductions[counter])]:
            self.op("local.get", self.locals[val])
            self.op("i32.const", c * loop.step)
            self.op("i32.add")
            self.op("local.tee" if c == counter else "local.set", self.locals[val])
        if loop.chunked:
            self.op("local.get", limit)
        else:
            self.op("i32.const", counter * loop.step * loop.trips)
        self.op("i32.ne")
        self.op("br_if", 0)
        self.op("end")
        if loop.chunked or exits:
            self.op("end")

    def look(self, loop: Loop) -> None:
        """In a loop that takes long: traps if the run is to end."""
        if loop in self.looks:
            self.out.trap_if(STOP)

    def bounds(self, loop: Loop) -> tuple[int, int]:
        """Locals with the bounds of a chunked loop's trips, as signed numbers: the kernel's, counted from its first
        trip, as far as it has them. There are none between bounds that have changed places."""
        first, begin, end = self.firsts[loop], 1, 2
        if first:
            begin = self.shifted(1, first)
            self.nearest(begin, 0, "i32.gt_s")
            end = self.shifted(2, first)
        if first + loop.trips < self.func.trips:
            end = end if first else self.shifted(2, 0)
            self.nearest(end, loop.trips, "i32.lt_s")
        return begin, end

    def shifted(self, local: int, by: int) -> int:
        """A new local with so much less than what a local holds."""
        found = self.out.local("i32")
        self.op("local.get", local)
        self.op("i32.const", by)
        self.op("i32.sub")
        self.op("local.set", found)
        return found

    def nearest(self, local: int, bound: int, comparison: str) -> None:
        """Keeps what a local holds only where it compares so with a bound, and else the bound."""
        self.op("local.get", local)
        self.op("i32.const", bound)
        self.op("local.get", local)
        self.op("i32.const", bound)
        self.op(comparison)
        self.op("select")
        self.op("local.set", local)

    def repeat(self, loop: Loop, condition: Val) -> None:
        """A loop without a count. Its condition may need what the carries hold in this trip, so it is there before they
        change."""
        assert not any(v in self.uses.counts for v in loop.inductions.values()), (
            "a loop without a count has no variable"
        )
        self.op("loop", None)
        self.look(loop)
        self.block(loop.body)
        self.value(condition)
        self.advance(loop)
        self.op("br_if", 0)
        self.op("end")

    def advance(self, loop: Loop) -> None:
        """The carries take their next values, all of which are there before the first of them changes."""
        self.hand_over([(carry, carry.next) for carry in loop.carries if carry.next is not None])

    def barrier(self, barrier: Barrier) -> None:
        self.hand_over(barrier.values)
        for carry, val in barrier.values:
            self.locals[val] = self.locals[carry.value]
        counter, limit = self.counters[barrier.loop]
        self.op("local.get", counter)
        self.op("i32.const", limit)
        self.op("i32.eq")
        self.op("br_if", 1)

    def hand_over(self, values: list[tuple[Carry, Val]]) -> None:
        """The carries take values, unless they hold them already."""
        other = [(carry, val) for carry, val in values if self.locals.get(val) != self.locals[carry.value]]
        for _, val in other:
            self.value(val)
        for carry, _ in reversed(other):
            self.op("local.set", self.locals[carry.value])

    def scaled(self, factor: int, local: int | None) -> None:
        """Pushes a bound of the range times `factor`, or 0."""
        if local is None:
            self.op("i32.const", 0)
            return
        self.op("local.get", local)
        if factor != 1:
            self.op("i32.const", factor)
            self.op("i32.mul")

    def store(self, store: Store) -> None:
        value, dtype, offset = store.value, store.dtype, store.offset
        size = TYPES[dtype].bytes
        if value.lanes == 1:
            self.value(store.address)
            self.value(value)
            self.op(_STORE[register(dtype), size], 0, offset)
            return
        if store.stride == 1:
            self.value(store.address)
            self.value(value)
            if size * value.lanes == 16 and dtype != "pred":
                self.op("v128.store", 0, offset)
                return
            self.gather_bytes(dtype, value.lanes)
            if value.lanes == 16:
                self.op("v128.store", 0, offset)
            else:
                self.op(f"v128.store{size * value.lanes * 8}_lane", 0, offset, 0)
            return
        value_local = self.temporary(value)
        for k in range(value.lanes):
            self.value(store.address)
            shift = offset + store.stride * k * size
            if shift < 0:
                self.op("i32.const", shift)
                self.op("i32.add")
                shift = 0
            self.op("local.get", value_local)
            if size >= 4:
                self.op(f"v128.store{size * 8}_lane", 0, shift, k)
            else:
                self.extract(dtype, value.lanes, k)
                self.op(_STORE["i32", size], 0, shift)

    def gather_bytes(self, dtype: str, lanes: int) -> None:
        """Gathers the low bytes of each lane at the start of the vector on the stack."""
        size, step = TYPES[dtype].bytes, lane_bytes(dtype, lanes)
        if dtype == "pred":
            self.op("v128.const", b"\1".ljust(step, b"\0") * lanes)
            self.op("v128.and")
        if size == step:
            return
        picked = [k * step + byte for k in range(lanes) for byte in range(size)]
        local = self.out.local("v128")
        self.op("local.tee", local)
        self.op("local.get", local)
        self.op("i8x16.shuffle", *picked, *([0] * (16 - len(picked))))


_STORE = {
    ("f32", 4): "f32.store",
    ("f64", 8): "f64.store",
    ("i32", 4): "i32.store",
    ("i64", 8): "i64.store",
    ("i32", 1): "i32.store8",
    ("i32", 2): "i32.store16",
}
