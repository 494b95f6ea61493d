"""Builds loop IR. Values splat, hoist and share themselves; one description serves scalars and vectors.

A value's block is the deepest among its operands'. Equal values in one block are one value. So loop-invariant code
motion and common-subexpression elimination happen as a kernel is written, and later stages need neither.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..hlo.types import TYPES
from .affine import Affine
from .ir import Barrier, Block, Carry, Func, If, Invoke, Loop, Store, Val

WIDE = ("f64", "s64", "u64")
"""Types whose kernels have two lanes; all others have four."""

_FORMATS = {"f32": "<f", "f64": "<d", "s64": "<q", "u64": "<Q"}
_FOLD = {op: getattr(operator, op) for op in ("eq", "ne", "lt", "le", "gt", "ge")}


class Builder:
    """Builds one `Func`.

    `lanes` is the lane count of this kernel's vector loops (4, or 2 where any 64-bit type takes part; 1 forbids
    vectors); `relaxed` allows fused multiply-add. `pointers` is the number of buffers, `written` those it stores to.
    """

    def __init__(self, name: str, pointers: int, lanes: int, relaxed: bool, written: frozenset[int] = frozenset()):
        self.name = name
        self.lanes = lanes
        self.relaxed = relaxed
        self.written = written
        self.pointers = pointers
        self.root = Block(0)
        self.stack: list[Block] = [self.root]
        self.vector: Loop | None = None
        """The loop whose variable runs along lanes, while it is open."""
        self.trips = 1

    def scratch_pointer(self) -> int:
        """The number of one more buffer, which the kernel writes and nobody else sees."""
        number = self.pointers
        self.pointers += 1
        self.written |= {number}
        return number

    def func(self) -> Func:
        """The finished kernel."""
        return Func(self.name, self.root, self.pointers, self.trips)

    # --- values -------------------------------------------------------------------------------------------------

    def _val(
        self, op: str, args: tuple[Val, ...], dtype: str, lanes: int, imm: Any = None, block: Block | None = None, shared: bool = True
    ) -> Val:
        if block is None:
            block = self.root
            for arg in args:
                if arg.block.level > block.level:
                    block = arg.block
        if shared:
            key = (op, dtype, lanes, imm, args)
            found = block.values.get(key)
            if found is not None:
                return found
        val = Val(op, args, dtype, lanes, imm, block)
        block.statements.append(val)
        if shared:
            block.values[key] = val
        return val

    def bits(self, dtype: str, pattern: int) -> Val:
        """The constant whose bit pattern is `pattern`."""
        return self._val("const", (), dtype, 1, pattern)

    def const(self, dtype: str, number: float | int | bool) -> Val:
        """A constant of an integer type (wrapped to its width), pred, f32 or f64 (rounded to it)."""
        form = _FORMATS.get(dtype)
        if dtype == "f32":
            try:
                pattern = struct.unpack("<I", struct.pack("<f", number))[0]
            except OverflowError:
                pattern = 0x7F800000 if number > 0 else 0xFF800000
        elif dtype == "f64":
            pattern = struct.unpack("<Q", struct.pack("<d", number))[0]
        elif form:
            pattern = int(number) & (2**64 - 1)
        elif dtype == "pred":
            pattern = int(bool(number))
        else:
            pattern = wrap(int(number), dtype) & 0xFFFFFFFF
        return self.bits(dtype, pattern)

    def splat(self, x: Val, lanes: int) -> Val:
        """`x` in all of `lanes` lanes."""
        if x.lanes == lanes or lanes == 1:
            return x
        return self._val("splat", (x,), x.dtype, lanes, block=None)

    def _op(self, op: str, *args: Val, dtype: str | None = None) -> Val:
        lanes = max(a.lanes for a in args)
        if lanes > 1:
            args = tuple(self.splat(a, lanes) for a in args)
        return self._val(op, args, dtype or args[0].dtype, lanes)

    def _wrapped(self, op: str, *args: Val) -> Val:
        """An operation whose result may leave the range of a narrow integer type."""
        x = self._op(op, *args)
        return self._op("wrap", x) if x.dtype in NARROW else x

    def add(self, x: Val, y: Val) -> Val:
        return self._wrapped("add", x, y)

    def sub(self, x: Val, y: Val) -> Val:
        return self._wrapped("sub", x, y)

    def mul(self, x: Val, y: Val) -> Val:
        return self._wrapped("mul", x, y)

    def div(self, x: Val, y: Val) -> Val:
        """Float division; for integers truncating division that traps on 0 and on overflow (see `ops.elementwise`)."""
        return self._wrapped("div", x, y)

    def rem(self, x: Val, y: Val) -> Val:
        """Integer remainder with the sign of `x`; traps where `y` is 0."""
        return self._wrapped("rem", x, y)

    def neg(self, x: Val) -> Val:
        return self._wrapped("neg", x)

    def abs(self, x: Val) -> Val:
        return self._wrapped("abs", x)

    def sqrt(self, x: Val) -> Val:
        return self._op("sqrt", x)

    def floor(self, x: Val) -> Val:
        return self._op("floor", x)

    def ceil(self, x: Val) -> Val:
        return self._op("ceil", x)

    def trunc(self, x: Val) -> Val:
        return self._op("trunc", x)

    def nearest(self, x: Val) -> Val:
        """Rounds halves to even."""
        return self._op("nearest", x)

    def min(self, x: Val, y: Val) -> Val:
        return self._op("min", x, y)

    def max(self, x: Val, y: Val) -> Val:
        return self._op("max", x, y)

    def pmin(self, x: Val, y: Val) -> Val:
        """`y < x ? y : x`: the cheap minimum of x86."""
        return self._op("pmin", x, y)

    def pmax(self, x: Val, y: Val) -> Val:
        """`x < y ? y : x`: the cheap maximum of x86."""
        return self._op("pmax", x, y)

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        """`x * y + z`, with one rounding where the target has it (vectors of floats on relaxed-simd)."""
        if self.relaxed and x.dtype in ("f32", "f64") and max(x.lanes, y.lanes, z.lanes) > 1:
            return self._op("madd", x, y, z)
        return self.add(self.mul(x, y), z)

    def fnma(self, x: Val, y: Val, z: Val) -> Val:
        """`z - x * y`, fused like `fma`."""
        if self.relaxed and x.dtype in ("f32", "f64") and max(x.lanes, y.lanes, z.lanes) > 1:
            return self._op("nmadd", x, y, z)
        return self.sub(z, self.mul(x, y))

    def copysign(self, x: Val, y: Val) -> Val:
        if max(x.lanes, y.lanes) == 1:
            return self._op("copysign", x, y)
        width = TYPES[x.dtype].bits
        unsigned = f"u{width}"
        sign = self.bits(unsigned, 1 << (width - 1))
        a, b = self.bitcast(x, unsigned), self.bitcast(y, unsigned)
        return self.bitcast(self.or_(self.andnot(a, sign), self.and_(b, sign)), x.dtype)

    def bitcast(self, x: Val, dtype: str) -> Val:
        """The same bits as another type of the same width."""
        return x if x.dtype == dtype else self._val("bitcast", (x,), dtype, x.lanes, x.dtype)

    def convert(self, x: Val, dtype: str) -> Val:
        """XLA's convert: float to integer truncates and saturates, NaN gives 0; integers wrap; to pred is `!= 0`."""
        source = x.dtype
        if source == dtype:
            return x
        if dtype == "pred":
            return self.ne(x, self.const(source, 0))
        if source == "pred":
            return self.select(x, self.const(dtype, 1), self.const(dtype, 0))
        if is_float(source) and dtype in NARROW:
            low, high = limits(dtype)
            wide = self._val("convert", (x,), "s32", x.lanes, source)
            clamped = self.min(self.max(wide, self.const("s32", low)), self.const("s32", high))
            return self._val("bitcast", (clamped,), dtype, x.lanes, "s32")
        if not is_float(source) and dtype in NARROW:
            if source in WIDE:
                x = self._val("convert", (x,), "s32", x.lanes, source)
            return self._op("wrap", self._val("bitcast", (x,), dtype, x.lanes, x.dtype))
        if source in NARROW:
            # A narrow value lies in a 32-bit register already, extended by its own sign.
            register = "s32" if source[0] == "s" else "u32"
            x = self._val("bitcast", (x,), register, x.lanes, source)
            if dtype in ("s32", "u32"):
                return self.bitcast(x, dtype)
            source = register
        if not is_float(source) and not is_float(dtype) and (source in WIDE) == (dtype in WIDE):
            return self.bitcast(x, dtype)
        return self._val("convert", (x,), dtype, x.lanes, source)

    def and_(self, x: Val, y: Val) -> Val:
        return self._op("and", x, y)

    def or_(self, x: Val, y: Val) -> Val:
        return self._op("or", x, y)

    def xor(self, x: Val, y: Val) -> Val:
        return self._op("xor", x, y)

    def not_(self, x: Val) -> Val:
        return self._wrapped("not", x)

    def andnot(self, x: Val, y: Val) -> Val:
        """`x & ~y`."""
        return self._op("andnot", x, y)

    def shl(self, x: Val, amount: int | Val) -> Val:
        """Shifts left by a constant or by one amount for all lanes, taken modulo the register's width."""
        return self._shift("shl", x, amount)

    def shr_s(self, x: Val, amount: int | Val) -> Val:
        return self._shift("shr_s", x, amount)

    def shr_u(self, x: Val, amount: int | Val) -> Val:
        return self._shift("shr_u", x, amount)

    def _shift(self, op: str, x: Val, amount: int | Val) -> Val:
        if isinstance(amount, int):
            amount = self.const("s32", amount)
        if op == "shr_u" and x.dtype in ("s8", "s16"):
            x = self.and_(x, self.bits(x.dtype, (1 << TYPES[x.dtype].bits) - 1))
        if amount.lanes > 1 or amount.dtype in WIDE:
            result = self._val(
                "shift_lanes",
                (self.splat(x, max(x.lanes, amount.lanes)), self.splat(amount, max(x.lanes, amount.lanes))),
                x.dtype,
                max(x.lanes, amount.lanes),
                op,
            )
        else:
            result = self._val(op, (x, amount), x.dtype, x.lanes)
        return self._op("wrap", result) if x.dtype in NARROW else result

    def clz(self, x: Val) -> Val:
        """Leading zeros of the 32- or 64-bit register."""
        return self._op("clz", x)

    def popcnt(self, x: Val) -> Val:
        """Set bits of the 32- or 64-bit register."""
        return self._op("popcnt", x)

    def _compare(self, op: str, x: Val, y: Val) -> Val:
        if x.op == y.op == "const" and not is_float(x.dtype) and x.dtype[0] != "s":
            return self.const("pred", _FOLD[op](x.imm, y.imm))
        return self._op(op, x, y, dtype="pred")

    def eq(self, x: Val, y: Val) -> Val:
        return self._compare("eq", x, y)

    def ne(self, x: Val, y: Val) -> Val:
        return self._compare("ne", x, y)

    def lt(self, x: Val, y: Val) -> Val:
        return self._compare("lt", x, y)

    def le(self, x: Val, y: Val) -> Val:
        return self._compare("le", x, y)

    def gt(self, x: Val, y: Val) -> Val:
        return self._compare("gt", x, y)

    def ge(self, x: Val, y: Val) -> Val:
        return self._compare("ge", x, y)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """`condition ? x : y`, lane by lane."""
        lanes = max(condition.lanes, x.lanes, y.lanes)
        if x is y:
            return x
        if condition.op == "const":
            return x if condition.imm else y
        args = tuple(self.splat(a, lanes) for a in (condition, x, y))
        return self._val("select", args, x.dtype, lanes)

    def call(self, symbol: str, *args: Val) -> Val:
        """Calls the scalar C function `symbol` for every lane."""
        lanes = max(a.lanes for a in args)
        return self._val("call", tuple(self.splat(a, lanes) for a in args), args[0].dtype, lanes, symbol)

    def invoke(self, symbol: str, *args: Val | int) -> None:
        """Calls the C function `symbol`, which works on memory, here; a Python number is passed as an i32."""
        values = tuple(self.const("s32", a) if isinstance(a, int) else a for a in args)
        self.stack[-1].statements.append(Invoke(symbol, values))

    def slow_path(self, mask: Val, fast: Val, symbol: str, *args: Val) -> Val:
        """`fast`, but where a lane of `mask` is set, the scalar C function `symbol` of that lane of `args`."""
        lanes = max(mask.lanes, fast.lanes, *(a.lanes for a in args))
        operands = tuple(self.splat(a, lanes) for a in (mask, fast, *args))
        return self._val("slow_path", operands, fast.dtype, lanes, symbol)

    def lane(self, x: Val, lane: int) -> Val:
        """One lane of a vector as a scalar."""
        return x if x.lanes == 1 else self._val("lane", (x,), x.dtype, 1, lane)

    def splat_lane(self, x: Val, lane: int) -> Val:
        """One lane of a vector in all its lanes."""
        return self._val("splat_lane", (x,), x.dtype, x.lanes, lane)

    def shuffle(self, x: Val, y: Val, lanes: tuple[int, ...]) -> Val:
        """Picks `lanes` out of the lanes of `x` and then `y`."""
        return self._val("shuffle", (x, y), x.dtype, x.lanes, lanes)

    def pin(self, x: Val) -> Val:
        """Computes `x` where it was built, not where it is used: order and register pressure in a hot loop."""
        x.pinned = True
        return x

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
                ramp = self._val("ramp", (), "s32", self.lanes, c)
                term = self.add(term, ramp)
            total = term if total is None else self.add(total, term)
        for value, c in index.values:
            term = value if c == 1 else self.mul(value, self.const("s32", c))
            total = term if total is None else self.add(total, term)
        if total is None:
            return self.const("s32", index.const)
        return self.add(total, self.const("s32", index.const)) if index.const else total

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
        if offset < 0 or any(c < 0 for _, c in index.loops) or index.values:
            # The constant offset of a wasm load does not wrap, so a base that may be too low takes it in.
            address = self._op("add", address, self.bits("u32", offset & 0xFFFFFFFF)) if offset else address
            offset = 0
        terms: list[tuple[int, Val]] = [(loop.level, self._induction(loop, c * element_bytes)) for loop, c in index.loops]
        for value, c in index.values:
            scaled = value if c * element_bytes == 1 else self._op("mul", value, self.const("s32", c * element_bytes))
            terms.append((value.block.level, scaled))
        for _, term in sorted(terms, key=lambda t: t[0]):
            address = self._op("add", address, term)
        return address, offset

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
        lanes = self.lanes if stride and self.vector else 1
        guard = self._innermost_guard(address.block)
        shared = pure and guard is None
        block = address.block if shared else guard if pure else self.stack[-1]
        op = "load" if lanes == 1 else ("load_vector" if stride == 1 else "load_strided")
        val = self._val(op, (address,), dtype, lanes, (offset, stride), block, shared=shared)
        if not pure:
            val.pinned = True
        return val

    def load_lanes(self, base: Val, index: Affine, dtype: str) -> Val:
        """A vector of consecutive elements from `index` on, whichever loop runs along lanes; only for what is not written."""
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        return self._val("load_vector", (address,), dtype, self.lanes, (offset, 1), address.block)

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
            values = tuple((self.lane(v, k), c) for v, c in index.values)
            shift = index.coefficient(self.vector) * k
            scalar = Affine(index.const + shift, index.loops, values)
            vector, self.vector = self.vector, None
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
        if any(v.lanes > 1 for v, _ in index.values):
            for k in range(self.lanes):
                values = tuple((self.lane(v, k), c) for v, c in index.values)
                shift = index.coefficient(self.vector) * k
                vector, self.vector = self.vector, None
                self.store_at(base, Affine(index.const + shift, index.loops, values), self.lane(value, k), dtype)
                self.vector = vector
            return
        if stride and self.vector:
            value = self.splat(value, self.lanes)
        elif value.lanes > 1:
            raise AssertionError("a vector has no single place to go")
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        self.stack[-1].statements.append(Store(address, offset, value, dtype, stride if self.vector else 0))

    def store_lanes(self, base: Val, index: Affine, value: Val, dtype: str) -> None:
        """Writes a vector to consecutive elements from `index` on, whichever loop runs along lanes."""
        address, offset = self.address(base, index, TYPES[dtype].bytes)
        self.stack[-1].statements.append(Store(address, offset, value, dtype, 1))

    # --- control ------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, trips: int, step: int = 1, vector: bool = False, ranged: bool = False) -> Iterator[Affine]:
        """Opens a loop of `trips` trips; yields its variable. `ranged` makes it the range that callers split."""
        if trips == 1 and not ranged and not vector:
            yield Affine()
            return
        loop = self.open_loop(trips, step, vector, ranged)
        yield Affine(0, ((loop, 1),))
        self.close_loop(loop)

    def open_loop(self, trips: int, step: int = 1, vector: bool = False, ranged: bool = False) -> Loop:
        """Opens a loop; its variable is `Affine(0, ((loop, 1),))`. Close it with `close_loop`."""
        body = Block(self.stack[-1].level + 1)
        loop = Loop(trips, step, self.lanes if vector else 1, ranged, body)
        self.stack.append(body)
        if vector:
            self.vector = loop
        if ranged:
            self.trips = trips
        return loop

    def close_loop(self, loop: Loop) -> None:
        """Closes the innermost loop; its carried values have their results then."""
        assert self.stack.pop() is loop.body
        if self.vector is loop:
            self.vector = None
        self.stack[-1].statements.append(loop)
        for carry in loop.carries:
            carry.result = Val("result", (), carry.init.dtype, carry.init.lanes, carry, self.stack[-1])

    def carry(self, loop: Loop, init: Val, lanes: int = 1) -> Carry:
        """A value carried by the innermost open loop; set its `next` before closing, take its `result` after."""
        init = self.splat(init, lanes)
        carry = Carry(init, Val("carry", (), init.dtype, init.lanes, None, loop.body))
        carry.value.imm = carry
        loop.carries.append(carry)
        return carry

    def barrier(self, loop: Loop, values: list[Val]) -> None:
        """What the innermost loop's body computed so far is done here; `values` replace what its carries held until now."""
        self.stack[-1].statements.append(Barrier(loop, list(zip(loop.carries, values))))

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Statements that run only where `condition`, a scalar pred, holds."""
        body = Block(self.stack[-1].level + 1, guarded=True)
        self.stack.append(body)
        yield
        self.stack.pop()
        self.stack[-1].statements.append(If(condition, body))

    def vectorized(self, extent: int, body: Callable[[Affine], None], padded: bool = False, ranged: bool = False) -> None:
        """Runs `body` over 0..extent-1, whole vectors first and the rest one by one.

        With `padded` the last vector may reach beyond the extent: the buffers have room, and nobody reads it.
        """
        lanes = self.lanes
        whole = -(-extent // lanes) if padded else extent // lanes
        if lanes == 1:
            with self.loop(extent, ranged=ranged) as i:
                body(i)
            return
        if whole and (whole > 1 or ranged or extent >= lanes or padded):
            with self.loop(whole, lanes, vector=True, ranged=ranged and whole > 0) as i:
                body(i)
        rest = extent - whole * lanes
        if rest > 0:
            with self.loop(rest) as i:
                body(i + whole * lanes)


NARROW = ("s8", "s16", "u8", "u16")
"""Integer types that live in 32-bit registers and wrap after each operation."""


def is_float(dtype: str) -> bool:
    return TYPES[dtype].kind == "float"


def limits(dtype: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    bits = TYPES[dtype].bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def wrap(number: int, dtype: str) -> int:
    """An integer brought into the range of an integer type by dropping high bits."""
    bits = TYPES[dtype].bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype[0] == "s" and number >> (bits - 1) else number
