"""Builds loop IR. Values splat, hoist and share themselves; one description serves scalars and vectors.

A value's block is the deepest among its operands'. Equal values in one block are one value. So loop-invariant code
motion and common-subexpression elimination happen as a kernel is written, and later stages need neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..hlo.types import TYPES
from ..target import V8, Target
from .affine import ZERO, Affine, Index
from .arithmetic import Arithmetic, is_float
from .ir import Barrier, Block, Call, Carry, Func, If, Loop, Store, Touch, Val
from .ops import NARROW, WIDE

__all__ = ["NARROW", "WIDE", "Builder", "is_float"]


class Builder(Arithmetic):
    """Builds one `Func`.

    `lanes` is the step of this kernel's vector loops: 4, or 2 where any 64-bit type takes part, or 8 or 16 where no
    type is wider than 16 or 8 bits. Values made by `load_lanes`, `extend_low`, `narrow` and the like
    have their own. `target` says which operations there are. `pointers` is the number of buffers, `written` those it
    stores to.
    """

    def __init__(self, name: str, pointers: int, lanes: int, target: Target, written: frozenset[int] = frozenset()):
        self.name = name
        self.lanes = lanes
        self.target = target
        self.written = written
        self.pointers = pointers
        self.root = Block(0)
        self.stack: list[Block] = [self.root]
        self.vector: Loop | None = None
        """The loop whose variable runs along lanes, while it is open."""
        self.narrowed: dict[Val, Val] = {}

    def scratch_pointer(self) -> int:
        """The number of one more buffer, which the kernel writes and nobody else sees."""
        number = self.pointers
        self.pointers += 1
        self.written |= {number}
        return number

    def func(self) -> Func:
        """The finished kernel."""
        return Func(self.name, self.root, self.pointers)

    # --- memory -------------------------------------------------------------------------------------------------

    def pointer(self, number: int) -> Val:
        """The address of buffer `number`."""
        return self._val("pointer", (), "u32", 1, number)

    def index_value(self, index: Affine) -> Val:
        """An index as an s32 value; in a vector loop's body one per lane, if it depends on that loop."""
        total: Val | None = None
        for loop, c in index.loops:
            term = self._induction(loop, c)
            if loop is self.vector:
                term = self.add(term, self.ramp(c))
            total = term if total is None else self.add(total, term)
        for value, c in index.values:
            term = value if c == 1 else self.mul(value, self.const("s32", c))
            total = term if total is None else self.add(total, term)
        if total is None:
            return self.const("s32", index.const)
        return self.add(total, self.const("s32", index.const)) if index.const else total

    def clamped(self, x: Val, last: int) -> Val:
        """A number brought inside `0..last`."""
        return self.min(self.max(x, self.const(x.dtype, 0)), self.const(x.dtype, last))

    def inside(self, position: Affine, size: int) -> tuple[Affine, Val | None]:
        """A position brought inside `0..size-1`, and whether it was there by itself (None: it always is)."""
        bounds = position.range()
        if bounds is not None and bounds[0] >= 0 and bounds[1] < size:
            return position, None
        value = self.index_value(position)
        held = self.lt(self.bitcast(value, "u32"), self.const("u32", size))
        return Affine.of(self.clamped(value, size - 1)), held

    def ramp(self, step: int = 1) -> Val:
        """The numbers 0, `step`, twice that and so on in as many lanes as the kernel's vectors have, as s32."""
        return self._val("ramp", (), "s32", self.lanes, step)

    def _induction(self, loop: Loop, coefficient: int) -> Val:
        found = loop.inductions.get(coefficient)
        if found is None:
            found = loop.inductions[coefficient] = Val("induction", (), "s32", 1, coefficient, loop.body)
        return found

    def variable(self, loop: Loop) -> Val:
        """A loop's variable as a scalar s32."""
        return self._induction(loop, 1)

    def address(self, base: Val, index: Affine, element_bytes: int) -> tuple[Val, int]:
        """The address of an element as a scalar value and a constant offset."""
        offset = index.const * element_bytes
        address = base
        if offset < 0 or [c for _, c in index.loops if c < 0] or index.values:
            # The constant offset of a wasm load does not wrap, so a base that may be too low takes it in.
            address = self._op("add", address, self.bits("u32", offset & 0xFFFFFFFF)) if offset else address
            offset = 0
        terms: list[tuple[int, Val]] = [
            (loop.level, self._induction(loop, c * element_bytes)) for loop, c in index.loops
        ]
        for value, c in index.values:
            scaled = value if c * element_bytes == 1 else self._op("mul", value, self.const("s32", c * element_bytes))
            terms.append((value.block.level, scaled))
        for _, term in sorted(terms, key=lambda t: t[0]):
            address = self._op("add", address, term)
        return address, offset

    def lanes_at(self, index: Index) -> int:
        """The lanes of a value at an index of loops: one where that is the same for all lanes of a vector."""
        return self.lanes if any(i.coefficient(self.vector) for i in index) else 1

    def at_lane(self, index: Affine, vector: Loop | None, lane: int) -> Affine:
        """The index of one lane, of those that run along the loop `vector` and of those of values."""
        shift = index.coefficient(vector) * lane
        return Affine(index.const + shift, index.loops, tuple((self.lane(v, lane), c) for v, c in index.values))

    def load(self, number: int, index: Affine, dtype: str) -> Val:
        """The element at `index` of buffer `number`; a vector where the index runs along the lanes."""
        return self.load_at(self.pointer(number), index, dtype, pure=number not in self.written)

    def load_at(self, base: Val, index: Affine, dtype: str, pure: bool = True) -> Val:
        """As `load`, from the address `base`. What is not `pure` is loaded where it stands."""
        stride = index.coefficient(self.vector)
        lane_values = [(v, c) for v, c in index.values if v.lanes > 1]
        if lane_values:
            return self._gather(base, index, dtype, pure)
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        lanes = self.lanes if stride else 1
        guard = self._innermost_guard(address.block)
        shared = pure and guard is None
        block = address.block if shared else guard if pure else self.stack[-1]
        op = "load" if lanes == 1 else ("load_vector" if stride == 1 else "load_strided")
        val = self._val(op, (address,), dtype, lanes, (offset, stride), block, shared=shared)
        if not pure:
            val.pinned = True
        return self._clean(val)

    def load_splat(self, base: Val, index: Affine, dtype: str, pure: bool = True) -> Val:
        """The element at `index`, which no loop along lanes changes, in all lanes of a vector; of a type that fills
        lanes of 32 or 64 bits."""
        if self.target.tune != V8:
            return self.splat(
                self.load_at(base, index, dtype, pure), self.lanes
            )  # Cranelift has a detour through integer registers
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        guard = self._innermost_guard(address.block)
        block = guard or address.block if pure else self.stack[-1]
        value = self._val(
            "load_splat", (address,), dtype, self.lanes, (offset, 0), block, shared=pure and guard is None
        )
        value.pinned = not pure
        return value

    def _clean(self, x: Val) -> Val:
        """A value from memory as registers hold it: hosts may leave anything in the bits that a type does not use."""
        return self._op("wrap", x) if x.dtype in NARROW and TYPES[x.dtype].bits < 8 else x

    def load_lanes(self, base: Val, index: Affine, dtype: str, lanes: int = 0, pure: bool = True) -> Val:
        """A vector of consecutive elements from `index` on, whichever loop runs along lanes. What is not `pure` is
        loaded where it stands.

        It has as many lanes as the kernel's vectors, or `lanes`.
        """
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        block = address.block if pure else self.stack[-1]
        value = self._val("load_vector", (address,), dtype, lanes or self.lanes, (offset, 1), block, shared=pure)
        value.pinned = not pure
        return self._clean(value)

    def _innermost_guard(self, block: Block) -> Block | None:
        """The deepest guarded block that is open below `block`: a load must not rise above its guard."""
        for open_block in reversed(self.stack):
            if open_block.level <= block.level:
                return None
            if open_block.guarded:
                return open_block
        return None

    def _gather(self, base: Val, index: Affine, dtype: str, pure: bool) -> Val:
        """One load per lane, for an index that differs by run-time values."""
        lanes = []
        for k in range(self.lanes):
            vector, scalar = self.vector, self.at_lane(index, self.vector, k)
            self.vector = None
            lanes.append(self.load_at(base, scalar, dtype, pure))
            self.vector = vector
        return self.pack(lanes)

    def pack(self, lanes: list[Val]) -> Val:
        """Scalars as the lanes of one vector."""
        return self._val("pack", tuple(lanes), lanes[0].dtype, len(lanes))

    def store(self, number: int, index: Affine, value: Val, dtype: str) -> None:
        """Writes one element, or a vector where the index runs along the lanes."""
        self.store_at(self.pointer(number), index, value, dtype)

    def store_at(self, base: Val, index: Affine, value: Val, dtype: str) -> None:
        """As `store`, at the address `base`."""
        stride = index.coefficient(self.vector)
        if stride:
            value = self.splat(value, self.lanes)
        elif value.lanes > 1:
            raise AssertionError("a vector has no single place to go")
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        self.stack[-1].statements.append(Store(address, offset, value, dtype, stride))

    def store_lanes(self, base: Val, index: Affine, value: Val, dtype: str) -> None:
        """Writes a vector to consecutive elements from `index` on, whichever loop runs along lanes."""
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        self.stack[-1].statements.append(Store(address, offset, value, dtype, 1))

    # --- control ------------------------------------------------------------------------------------------------

    @property
    def outermost(self) -> bool:
        """True if no loop is open, nor a condition."""
        return len(self.stack) == 1

    def invoke(self, symbol: str, *args: Val | int, touches: tuple[Touch, ...] = (), cost: int = 1) -> None:
        """Calls the C function `symbol`, which works on memory, here; a Python number is passed as an i32."""
        values = tuple(self.const("s32", a) if isinstance(a, int) else a for a in args)
        self.stack[-1].add(Call(symbol, values, touches, cost))

    @contextmanager
    def loop(self, trips: int, step: int = 1, vector: bool = False, chunked: bool = False) -> Iterator[Affine]:
        """Opens a loop of `trips` trips; yields its variable. `chunked`: as for `open_loop`."""
        if trips == 1 and not vector and not (chunked and self.outermost):
            yield ZERO
        else:
            with self.open_loop(trips, step, vector, chunked) as loop:
                yield Affine.along(loop)

    @contextmanager
    def open_loop(self, trips: int, step: int = 1, vector: bool = False, chunked: bool = False) -> Iterator[Loop]:
        """As `loop`, with a loop in any case, which may carry values; its variable is `Affine.along(loop)`.

        With `chunked`, if no other loop is open, it is a part of the range that callers split.
        """
        body = Block(self.stack[-1].level + 1)
        loop = Loop(trips, step, self.lanes if vector else 1, chunked and self.outermost, body)
        self.stack.append(body)
        if vector:
            self.vector = loop
        yield loop
        self.stack.pop()
        if self.vector is loop:
            self.vector = None
        self.stack[-1].add(loop)

    @contextmanager
    def repeat(self) -> Iterator[Loop]:
        """Opens a loop whose body runs once, and again as long as what it sets as the loop's `condition` holds."""
        with self.open_loop(0) as loop:
            yield loop
            assert loop.condition is not None, "a loop without a count needs a condition"

    def carry(self, loop: Loop, init: Val, lanes: int = 1) -> Carry:
        """A value carried by the innermost open loop; set its `next` before closing, take its `result` after."""
        assert not loop.chunked, "callers split the trips of a chunked loop"
        init = self.splat(init, lanes)
        value = Val("carry", (), init.dtype, init.lanes, None, loop.body)
        result = Val("result", (), init.dtype, init.lanes, None, self.stack[loop.level - 1])
        carry = value.imm = result.imm = Carry(init, value, result)
        loop.carries.append(carry)
        return carry

    def barrier(self, loop: Loop, values: list[Val]) -> None:
        """Ends the computing of what the innermost loop's body has so far; `values` replace what its carries held until
        now."""
        self.stack[-1].add(Barrier(loop, list(zip(loop.carries, values))))

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Statements that run only where `condition`, a scalar pred, holds."""
        body = Block(self.stack[-1].level + 1, guarded=True)
        self.stack.append(body)
        yield
        self.stack.pop()
        self.stack[-1].add(If(condition, body))

    def vectorized(
        self, extent: int, body: Callable[[Affine], None], padded: bool = False, chunked: bool = False
    ) -> None:
        """Runs `body` over 0..extent-1, whole vectors first and the rest one by one.

        With `padded` the last vector may reach beyond the extent: the buffers have room, and nobody reads it.
        """
        lanes = self.lanes
        whole = -(-extent // lanes) if padded else extent // lanes
        if whole:
            with self.loop(whole, lanes, vector=True, chunked=chunked) as i:
                body(i)
        rest = extent - whole * lanes
        if rest > 0:
            with self.loop(rest) as i:
                body(i + whole * lanes)
