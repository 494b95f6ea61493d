"""Typed values of loop IR and what is computed from them: `Arithmetic`, the part of `Builder` that knows no memory.

A value's block is the deepest among its operands'. Equal values in one block are one value. So loop-invariant code
motion and common-subexpression elimination happen as a kernel is written, and later stages need neither.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from math import copysign, isnan
from typing import Any, TypeVar

from ..hlo.types import SMALL_FLOATS, TYPES, limits, wrap
from ..target import RELAXED_SIMD, Target
from .ir import Block, Val
from .ops import NARROW, WIDE
from .small_floats import encode, from_f32, from_f64, to_f32, to_pred


def is_float(dtype: str) -> bool:
    return TYPES[dtype].kind == "float"


def twice(dtype: str) -> str:
    """The integer type with twice the bits; a mask stays one."""
    return dtype if dtype == "pred" else f"{dtype[0]}{2 * TYPES[dtype].bits}"


def fills(dtype: str, lanes: int) -> bool:
    """Returns True if a narrow type fills the lanes of a vector, so that nothing has to be wrapped."""
    return lanes > 4 and TYPES[dtype].bits * lanes == 128


T = TypeVar("T")


def in_pairs(values: list[T], combine: Callable[[T, T], T]) -> T:
    """Two, four, eight, ... values combined: neighbours first, then what these gave."""
    while len(values) > 1:
        values = [combine(x, y) for x, y in zip(values[::2], values[1::2])]
    return values[0]


_FOLD = {op: getattr(operator, op) for op in ("eq", "ne", "lt", "le", "gt", "ge")}


class Arithmetic:
    """Makes values. A value splats by itself where lanes are needed, so one description serves scalars and vectors."""

    target: Target
    root: Block
    narrowed: dict[Val, Val]
    """Small floats that were made from an f32, and that."""

    def _val(
        self,
        op: str,
        args: tuple[Val, ...],
        dtype: str,
        lanes: int,
        imm: Any = None,
        block: Block | None = None,
        shared: bool = True,
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
        """A constant of an integer type (wrapped to its width), pred or a float type (rounded to it; no finite number
        beyond those of f32)."""
        if dtype == "f32":
            pattern = struct.unpack("<I", struct.pack("<f", number))[0]
        elif dtype == "f64":
            pattern = struct.unpack("<Q", struct.pack("<d", number))[0]
        elif dtype in WIDE:
            pattern = int(number) & (2**64 - 1)
        elif dtype == "pred":
            pattern = int(bool(number))
        elif dtype in SMALL_FLOATS:
            pattern = encode(dtype, float(number))
        else:
            pattern = wrap(int(number), dtype) & 0xFFFFFFFF
        return self.bits(dtype, pattern)

    def splat(self, x: Val, lanes: int) -> Val:
        """`x` in all of `lanes` lanes."""
        if x.lanes == lanes:
            return x
        return self._val("splat", (x,), x.dtype, lanes)

    def _op(self, op: str, *args: Val, dtype: str | None = None) -> Val:
        lanes = max([a.lanes for a in args])
        if lanes > 1:
            args = tuple([a if a.lanes == lanes else self.splat(a, lanes) for a in args])
        return self._val(op, args, dtype or args[0].dtype, lanes)

    def _wrapped(self, op: str, *args: Val) -> Val:
        """An operation whose result may leave the range of a narrow integer type."""
        x = self._op(op, *args)
        return self._op("wrap", x) if x.dtype in NARROW and not fills(x.dtype, x.lanes) else x

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
        limit, z = _limit(x, y)
        if limit is None or limit == 0 and copysign(1, limit) < 0:
            return self._op("min", x, y)
        # A number that is no NaN, nor the lesser zero, needs no more than the instruction of processors.
        return self.pmin(z, self.const(z.dtype, limit))

    def max(self, x: Val, y: Val) -> Val:
        limit, z = _limit(x, y)
        if limit is None:
            return self._op("max", x, y)
        bound = self.const(z.dtype, limit)
        greater = self.pmax(z, bound)
        # It leaves -0 beside +0, whose sum is the greater of them.
        return self.add(greater, bound) if limit == 0 and copysign(1, limit) > 0 else greater

    def pmin(self, x: Val, y: Val) -> Val:
        """`y < x ? y : x`: the cheap minimum of x86."""
        return self._op("pmin", x, y)

    def pmax(self, x: Val, y: Val) -> Val:
        """`x < y ? y : x`: the cheap maximum of x86."""
        return self._op("pmax", x, y)

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        """`x * y + z`, with one rounding where the target has it (vectors of floats on relaxed-simd)."""
        if self.target.fused and x.dtype in ("f32", "f64") and max(x.lanes, y.lanes, z.lanes) > 1:
            return self._op("madd", x, y, z)
        return self.add(self.mul(x, y), z)

    def contracted(self, x: Val, y: Val, z: Val) -> Val:
        """`x * y + z` as a fused target rounds it in vectors, for single numbers too: an element has the same value
        wherever it is computed."""
        lanes = max(x.lanes, y.lanes, z.lanes)
        if lanes > 1:
            return self.fma(x, y, z)
        wide = 2 if x.dtype == "f64" else 4
        return self.lane(self._op("madd", *(self.splat(v, wide) for v in (x, y, z))), 0)

    def fnma(self, x: Val, y: Val, z: Val) -> Val:
        """`z - x * y` of floats, fused like `fma`."""
        if self.target.fused and max(x.lanes, y.lanes, z.lanes) > 1:
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
        """The same bits as another type of the same width; of a wider one, the low bits."""
        if x.dtype == dtype:
            return x
        result = self._val("bitcast", (x,), dtype, x.lanes, x.dtype)
        return (
            self._op("wrap", result)
            if (dtype in NARROW or dtype in SMALL_FLOATS) and not fills(dtype, x.lanes)
            else result
        )

    def word(self, x: Val) -> Val:
        """The 32-bit register that a narrow integer or small float lies in."""
        return self._val("bitcast", (x,), "s32", x.lanes, x.dtype)

    def stored(self, word: Val, dtype: str) -> Val:
        """A 32-bit register that holds a value of a narrow type, as that."""
        return self._val("bitcast", (word,), dtype, word.lanes, word.dtype)

    def convert(self, x: Val, dtype: str) -> Val:
        """XLA's convert: float to integer truncates and saturates, NaN gives 0; integers wrap; to pred is `!= 0`."""
        source = x.dtype
        if source == dtype:
            return x
        if x.op == "const" and source in ("s32", "u32") and dtype in ("f32", "f64"):
            return self.const(dtype, wrap(x.imm, source))
        if dtype == "pred":
            return to_pred(self, x) if source in SMALL_FLOATS else self.ne(x, self.const(source, 0))
        if source == "pred":
            return self.select(x, self.const(dtype, 1), self.const(dtype, 0))
        if source in SMALL_FLOATS:
            return self.convert(to_f32(self, x), dtype)
        if dtype in SMALL_FLOATS:
            return from_f64(self, x, dtype) if source == "f64" else from_f32(self, self.convert(x, "f32"), dtype)
        if is_float(source) and dtype in NARROW:
            low, high = limits(dtype)
            wide = self._val("convert", (x,), "s32", x.lanes, source)
            clamped = self.min(self.max(wide, self.const("s32", low)), self.const("s32", high))
            return self.stored(clamped, dtype)
        if not is_float(source) and dtype in NARROW:
            if source in WIDE:
                x = self._val("convert", (x,), "s32", x.lanes, source)
            return self.bitcast(x, dtype)
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
        if x.dtype in NARROW and fills(x.dtype, x.lanes) and op[4:] == {"s": "u", "u": "s"}[x.dtype[0]]:
            # Nothing extends the value by its sign or by zeros here, so the shift has to be the type's own.
            if op == "shr_u":
                return self.bitcast(self._shift(op, self.bitcast(x, f"u{TYPES[x.dtype].bits}"), amount), x.dtype)
            op = "shr_u"
        elif op == "shr_u" and x.dtype in NARROW and x.dtype[0] == "s":
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
        return self._op("wrap", result) if x.dtype in NARROW and not fills(x.dtype, result.lanes) else result

    def clz(self, x: Val) -> Val:
        """Leading zeros of the 32- or 64-bit register."""
        return self._op("clz", x)

    def popcnt(self, x: Val) -> Val:
        """Set bits of the 32- or 64-bit register."""
        return self._op("popcnt", x)

    def mulhi(self, x: Val, y: Val) -> Val:
        """The high half of the 64-bit product of two u32."""
        return self._op("mulhi", x, y)

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

    def slow_path(self, mask: Val, fast: Val, symbol: str, *args: Val) -> Val:
        """`fast`, but where a lane of `mask` is set, the scalar C function `symbol` of that lane of `args`."""
        lanes = max(mask.lanes, fast.lanes, *(a.lanes for a in args))
        operands = tuple(self.splat(a, lanes) for a in (mask, fast, *args))
        return self._val("slow_path", operands, fast.dtype, lanes, symbol)

    def lane(self, x: Val, lane: int) -> Val:
        """One lane of a vector as a scalar."""
        return x if x.lanes == 1 else self._val("lane", (x,), x.dtype, 1, lane)

    def any_true(self, mask: Val) -> Val:
        """Returns a scalar that is true if any lane is set."""
        return mask if mask.lanes == 1 else self._val("any_true", (mask,), "pred", 1)

    def splat_lane(self, x: Val, lane: int) -> Val:
        """One lane of a vector in all its lanes."""
        return self._val("splat_lane", (x,), x.dtype, x.lanes, lane)

    def shuffle(self, x: Val, y: Val, lanes: tuple[int, ...]) -> Val:
        """Picks `lanes` out of the lanes of `x` and then `y`."""
        return self._val("shuffle", (x, y), x.dtype, x.lanes, lanes)

    # --- values of other widths, with other numbers of lanes -----------------------------------------------------

    def extend_low(self, x: Val) -> Val:
        """The first half of a vector's lanes, each twice as wide: s8 becomes s16, a mask a mask."""
        return self._val("extend_low", (x,), twice(x.dtype), x.lanes // 2)

    def extend_high(self, x: Val) -> Val:
        """The second half of a vector's lanes, each twice as wide."""
        return self._val("extend_high", (x,), twice(x.dtype), x.lanes // 2)

    def narrow(self, x: Val, y: Val, dtype: str) -> Val:
        """The lanes of two vectors of signed integers or masks in lanes half as wide; what leaves the range of `dtype`
        is clamped."""
        return self._val("narrow", (x, y), dtype, 2 * x.lanes)

    def halves(self, x: Val) -> Val:
        """The low and the high half of each lane of 32 or 16 bits, as lanes of their own."""
        return self._val("halves", (x,), "s16" if x.dtype == "s32" else "s8", 2 * x.lanes)

    def joined(self, x: Val) -> Val:
        """Pairs of adjacent lanes of s16 as lanes of 32 bits, the first in their low half: what `halves` takes
        apart."""
        return self._val("joined", (x,), "s32", x.lanes // 2)

    def extadd_pairwise(self, x: Val) -> Val:
        """The sums of adjacent lanes, twice as wide."""
        return self._val("extadd_pairwise", (x,), twice(x.dtype), x.lanes // 2)

    def dot(self, x: Val, y: Val) -> Val:
        """The sums of the products of adjacent lanes of s16, as s32; modulo 2**32, which (-2**15)**2 * 2 reaches
        alone."""
        return self._val("dot", (x, y), "s32", x.lanes // 2)

    def dot_i7(self, x: Val, y: Val) -> Val:
        """The sums of the products of adjacent lanes of s8, as s16; those of `y` have no more than 7 bits: 0 to 127."""
        if RELAXED_SIMD in self.target.features:
            return self._val("relaxed_dot", (x, y), "s16", x.lanes // 2)
        low, high = (self.dot(extend(x), extend(y)) for extend in (self.extend_low, self.extend_high))
        return self.narrow(low, high, "s16")

    def dot_i7_add(self, x: Val, y: Val, z: Val) -> Val:
        """`z` and the sums of the products of four adjacent lanes of s8, as s32; those of `y` have no more than 7 bits:
        0 to 127."""
        if RELAXED_SIMD in self.target.features:
            return self._val("relaxed_dot_add", (x, y, z), "s32", x.lanes // 4)
        return self.add(z, self.extadd_pairwise(self.dot_i7(x, y)))

    def pin(self, x: Val) -> Val:
        """Computes `x` where it was built, not where it is used: order and register pressure in a hot loop."""
        x.pinned = True
        return x


def _limit(x: Val, y: Val) -> tuple[float | None, Val]:
    """The number that one of two values is in vectors of floats, if it is one and no NaN, and the other value."""
    for limit, value in ((x, y), (y, x)):
        constant = limit.args[0] if limit.op == "splat" else limit
        if constant.op == "const" and value.lanes > 1 and value.dtype in ("f32", "f64"):
            single = value.dtype == "f32"
            (number,) = struct.unpack("<f" if single else "<d", constant.imm.to_bytes(4 if single else 8, "little"))
            return (None if isnan(number) else number), value
    return None, x
