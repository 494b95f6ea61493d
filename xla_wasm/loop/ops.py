"""Every operation of the loop IR, once: what it takes, what it gives, and which WebAssembly instruction it is.

The emitter, the printer and the verifier work from this table; an operation that is not in it does not exist. A row
reads: names, signature, the types that `t` may be, immediate, effect, instruction.

A signature names the type and the lanes of each operand and, after `>`, of the result. A letter alone has as many lanes
as the others; a 1 behind it makes it a scalar, a 2 or 4 gives it so many times the lanes, a quote half of them. A star
stands for any number of what comes before it.

    t  the operation's type; T: a vector    w  an integer of the same width as t, of either sign; t itself if it is none
    p  pred                                 h  as t, with half the bits: an integer of either sign, or pred if t is
    i  any integer                          d  a signed integer with twice the bits of t, or pred if t is
    a  an address: u32                      x  any type
    s  s32                                  b  s8
    c  s16

A type that only some numbers of lanes go with has them behind it: `s8x16`. The immediate is one of: bits (a pattern),
buffer, coefficient, carry, place (a constant offset in bytes, and the distance of lanes in elements), lane, lanes, type
(that of the operand), shift, or symbol. The effect is one of: reads (memory, which stores change), traps (where its
result has no meaning).

The last column is one of: `=` (the instruction of this name), `+` (the same, with its sign behind it for integers), `s`
(the same, for signed integers and floats only), `v128` (the instruction of all vectors), `relaxed` (of relaxed SIMD),
`wider` (of this name, with the operands' shape and sign behind it), an instruction, `.` (the method of `values.Values`
with this name writes it), or `-` (a loop has it in a local). What has no instruction for a type is written lane by
lane, or by `Values.composed` for scalars.

A lane is as wide as 128 bits divided by their number, whatever the type: an s8 in four lanes lies in 32 bits, extended
by its sign, in eight lanes in 16 bits, and in sixteen in its own. Two lanes of at most 32 bits are the exception, see
`lane_bytes`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..hlo.types import ARRAY_TYPES, TYPES, is_integral
from ..wasm.opcodes import CODE

WIDE = ("f64", "s64", "u64")
"""Types of 64 bits, of which a vector has two lanes."""

NARROW = tuple([name for name in ARRAY_TYPES if is_integral(name) and TYPES[name].bits < 32])
"""Integer types that are narrower than a scalar register: they wrap after each operation that may leave their range."""

COMPUTED = ("f32", "f64")
"""Floats with arithmetic: small ones are only moved and converted."""

# --- registers ------------------------------------------------------------------------------------------------------

_REGISTER = {"f32": "f32", "f64": "f64", "s64": "i64", "u64": "i64"}


def register(dtype: str, lanes: int = 1) -> str:
    """The wasm value type of a value: all but f32 and types of 64 bits live in an i32."""
    return "v128" if lanes > 1 else _REGISTER.get(dtype, "i32")


def unsigned(dtype: str) -> bool:
    """Returns True if registers extend a value by zeros: small floats are raw bits there."""
    return TYPES[dtype].kind in ("unsigned", "pred", "float")


def lane_bytes(dtype: str, lanes: int) -> int:
    """The bytes of one lane of a vector. Only two lanes of a 32-bit or narrower type, other than pred, leave half of it
    empty."""
    return 4 if lanes == 2 and dtype not in WIDE and dtype != "pred" else 16 // lanes


def lane_shape(dtype: str, lanes: int) -> str:
    """The vector shape in whose lanes a type lies."""
    if dtype in COMPUTED:
        return "f32x4" if dtype == "f32" else "f64x2"
    return _SHAPES[lane_bytes(dtype, lanes)]


_SHAPES = {1: "i8x16", 2: "i16x8", 4: "i32x4", 8: "i64x2"}


def fits(dtype: str, lanes: int) -> bool:
    """Returns True if a value of a type may have so many lanes."""
    if lanes == 1:
        return True
    return lanes in (2, 4, 8, 16) and TYPES[dtype].bits <= 8 * lane_bytes(dtype, lanes)


# --- the table ------------------------------------------------------------------------------------------------------


class Op(NamedTuple):
    """One operation: see the head of this file."""

    name: str
    operands: tuple[str, ...]
    result: str
    types: tuple[str, ...]
    immediate: str
    effect: str
    form: str


_TABLE = """
# values that are there
const                         >t1    any          bits         -      .
pointer                       >a1    -            buffer       -      .
induction                     >s1    -            coefficient  -      -
carry result                  >t     any          carry        -      -
ramp                          >T     s32          coefficient  -      .
# memory
load                          a1>t1  any          place        reads  .
load_vector load_strided      a1>T   any          place        reads  .
load_splat                    a1>T   f32x4,s32x4,u32x4,f64x2,s64x2,u64x2  place  reads  .
# arithmetic
add sub mul                   tw>t   int,float    -            -      =
div                           tt>t   int,float    -            traps  +
rem                           tt>t   int          -            traps  +
neg                           t>t    int,float    -            -      =
abs                           t>t    int,float    -            -      s
min max                       tt>t   int,float,pred  -         -      +
pmin pmax                     tt>t   float        -            -      =
sqrt floor ceil trunc nearest t>t    float        -            -      =
copysign                      tt>t   float        -            -      =
madd nmadd                    ttt>T  float        -            -      relaxed
mulhi                         tt>t   u32          -            -      .
# bits
and or xor andnot             tw>t   int,pred     -            -      v128
not                           t>t    int,pred     -            -      v128
shl shr_s shr_u               ti1>t  int          -            -      .
shift_lanes                   tw>t   int          shift        -      .
clz                           t>t    word         -            -      =
popcnt                        t>t    word,u8x16   -            -      =
# comparisons
eq ne                         tw>p   int,float,pred  -         -      =
lt le gt ge                   tt>p   int,float,pred  -         -      +
select                        ptt>t  any          -            -      .
# types
bitcast                       x>t    any          type         -      .
wrap                          t>t    any          -            -      .
convert                       x>t    int,float    type         -      .
# lanes
splat                         t1>T   any          -            -      .
lane                          T>t1   any          lane         -      .
any_true                      T>p1   predx2,predx4,predx8,predx16  - -   v128.any_true
splat_lane                    t>T    any          lane         -      .
shuffle                       tt>T   any          lanes        -      .
pack                          t1*>T  any          -            -      .
# values of other widths, with other numbers of lanes
extend_low extend_high        h2>T   int,pred     -            -      wider
halves                        d'>T   s16x8,s8x16  -            -      .
joined                        c2>T   s32x4        -            -      .
narrow                        d'd'>T s8x16,u8x16,s16x8,u16x8,predx4,predx8,predx16  - -  .
extadd_pairwise               h2>T   s16x8,u16x8,s32x4,u32x4  -  -    wider
dot                           c2c2>T s32x4        -            -      i32x4.dot_i16x8_s
relaxed_dot                   b2b2>T s16x8        -            -      i16x8.relaxed_dot_i8x16_i7x16_s
relaxed_dot_add               b4b4t>T  s32x4      -            -      i32x4.relaxed_dot_i8x16_i7x16_add_s
# C functions of numbers
call                          t*>t   any          symbol       -      .
slow_path                     ptx*>t any          symbol       -      .
"""

INTEGERS = (*NARROW, "s32", "u32", "s64", "u64")

_CLASSES = {
    "any": tuple(t for t in ARRAY_TYPES if TYPES[t].kind != "complex"),
    "int": INTEGERS,
    "word": tuple(f"{t}x{n}" for t in INTEGERS for n in (1, 2, 4)),
    "float": COMPUTED,
}


def _tokens(text: str) -> tuple[str, ...]:
    """The letters of a signature, each with what stands behind it."""
    found: list[str] = []
    for c in text:
        if not c.isalpha():
            found[-1] += c
        else:
            found.append(c)
    return tuple(found)


def _rows() -> dict[str, Op]:
    rows: dict[str, Op] = {}
    for line in _TABLE.strip().splitlines():
        if line.startswith("#"):
            continue
        *names, signature, types, immediate, effect, form = line.split()
        operands, _, result = signature.partition(">")
        allowed = tuple(t for word in types.split(",") if word != "-" for t in _CLASSES.get(word, (word,)))
        immediate, effect, form = ("" if word == "-" else word for word in (immediate, effect, form))
        for name in names:
            rows[name] = Op(name, _tokens(operands), result, allowed, immediate, effect, form)
    return rows


OPS: dict[str, Op] = _rows()
"""Every operation by its name."""


# --- instructions ---------------------------------------------------------------------------------------------------


@cache
def instructions(op: str, dtype: str, lanes: int) -> tuple[str, ...] | None:
    """The instructions of an operation, to follow its operands; None if the emitter has to compose it.

    `dtype` is the type of the first operand, `lanes` the number that the result has. Comparisons give a mask as wide as
    a lane of a pred, so on 32-bit operands in two lanes the mask is widened.
    """
    form, number = OPS[op].form, dtype in COMPUTED
    if form == "wider":
        shape = lane_shape(dtype, 2 * lanes)
        name = f"{_SHAPES[16 // lanes]}.{op}_{shape}_{'u' if unsigned(dtype) and dtype != 'pred' else 's'}"
        return (name,) if name in CODE else None
    if len(form) > 1 and "." in form:
        return (form,)
    if lanes > 1 and form == "v128":
        return (f"v128.{op}",)
    if lanes > 1 and dtype == "pred" and form == "+":
        return _OF_MASKS.get(op)
    if form == "s" and unsigned(dtype) and not number:
        return None
    shape = lane_shape(dtype, lanes) if lanes > 1 else register(dtype)
    sign = "" if form != "+" or number else "_u" if unsigned(dtype) else "_s"
    name = f"{shape}.{'relaxed_' if form == 'relaxed' else ''}{op}{sign}"
    if name not in CODE:
        return None
    widened = OPS[op].result == "p" and lanes == 2 and lane_bytes(dtype, lanes) == 4
    return (name, "i64x2.extend_low_i32x4_s") if widened else (name,)


_OF_MASKS = {"min": ("v128.and",), "max": ("v128.or",)}


# --- conversions ----------------------------------------------------------------------------------------------------

CONVERT: dict[tuple[str, str], tuple[str, ...]] = {
    ("s32", "f32"): ("f32.convert_i32_s",),
    ("u32", "f32"): ("f32.convert_i32_u",),
    ("s64", "f32"): ("f32.convert_i64_s",),
    ("u64", "f32"): ("f32.convert_i64_u",),
    ("f64", "f32"): ("f32.demote_f64",),
    ("s32", "f64"): ("f64.convert_i32_s",),
    ("u32", "f64"): ("f64.convert_i32_u",),
    ("s64", "f64"): ("f64.convert_i64_s",),
    ("u64", "f64"): ("f64.convert_i64_u",),
    ("f32", "f64"): ("f64.promote_f32",),
    ("f32", "s32"): ("i32.trunc_sat_f32_s",),
    ("f32", "u32"): ("i32.trunc_sat_f32_u",),
    ("f64", "s32"): ("i32.trunc_sat_f64_s",),
    ("f64", "u32"): ("i32.trunc_sat_f64_u",),
    ("f32", "s64"): ("i64.trunc_sat_f32_s",),
    ("f32", "u64"): ("i64.trunc_sat_f32_u",),
    ("f64", "s64"): ("i64.trunc_sat_f64_s",),
    ("f64", "u64"): ("i64.trunc_sat_f64_u",),
    ("s64", "s32"): ("i32.wrap_i64",),
    ("s64", "u32"): ("i32.wrap_i64",),
    ("u64", "s32"): ("i32.wrap_i64",),
    ("u64", "u32"): ("i32.wrap_i64",),
    ("s32", "s64"): ("i64.extend_i32_s",),
    ("s32", "u64"): ("i64.extend_i32_s",),
    ("u32", "s64"): ("i64.extend_i32_u",),
    ("u32", "u64"): ("i64.extend_i32_u",),
}
"""Scalar conversions between the types that registers hold."""

CONVERT_LANES: dict[tuple[str, str], tuple[str, ...]] = {
    ("s32", "f32"): ("f32x4.convert_i32x4_s",),
    ("u32", "f32"): ("f32x4.convert_i32x4_u",),
    ("f32", "s32"): ("i32x4.trunc_sat_f32x4_s",),
    ("f32", "u32"): ("i32x4.trunc_sat_f32x4_u",),
    ("f64", "f32"): ("f32x4.demote_f64x2_zero",),
    ("f32", "f64"): ("f64x2.promote_low_f32x4",),
    ("s32", "f64"): ("f64x2.convert_low_i32x4_s",),
    ("u32", "f64"): ("f64x2.convert_low_i32x4_u",),
    ("f64", "s32"): ("i32x4.trunc_sat_f64x2_s_zero",),
    ("f64", "u32"): ("i32x4.trunc_sat_f64x2_u_zero",),
    ("s32", "s64"): ("i64x2.extend_low_i32x4_s",),
    ("s32", "u64"): ("i64x2.extend_low_i32x4_s",),
    ("u32", "s64"): ("i64x2.extend_low_i32x4_u",),
    ("u32", "u64"): ("i64x2.extend_low_i32x4_u",),
}
"""Vector conversions. In two lanes, a 32-bit type lies in the low half of its vector."""
