"""Every WebAssembly opcode, once: core, bulk memory, reference types, SIMD, relaxed SIMD and threads.

The table drives the encoder (`Func.op`), the disassembler and the checker. A line reads: code of the first name (its
prefix byte, if any, comes first), stack signature, immediates, names. Names that share a line have consecutive codes;
braces spare repeating what they have in common, and "-" leaves out a code. Types in signatures: i=i32 l=i64 f=f32 d=f64
v=v128, and "*" where the signature depends on the context, so that only the checker knows it. "memarg:2" has natural
alignment 2**2.
"""

from __future__ import annotations

from functools import cache

from ..dataclass import dataclass
from .encoding import uleb


@dataclass(eq=False, slots=True)
class Opcode:
    """One instruction. `contextual`: params and results are empty because they depend on where it stands."""

    name: str
    code: bytes
    params: tuple[str, ...]
    results: tuple[str, ...]
    immediates: tuple[str, ...]
    align: int
    contextual: bool


_TABLE = """
# control
00     *      -             unreachable nop
02     *      block         block loop if
05     *      -             else
0b     *      -             end
0c     *      label         br br_if
0e     *      labels        br_table
0f     *      -             return
10     *      func          call
11     *      type,table    call_indirect
1a     *      -             drop select
1c     *      types         select.t
20     *      local         local.{get set tee}
23     *      global        global.{get set}
25     *      table         table.{get set}
d0     *      heap          ref.null
d1     *      -             ref.is_null
d2     *      func          ref.func
# memory
28     i>i    memarg:2      i32.load
29     i>l    memarg:3      i64.load
2a     i>f    memarg:2      f32.load
2b     i>d    memarg:3      f64.load
2c     i>i    memarg:0      i32.{load8_s load8_u}
2e     i>i    memarg:1      i32.{load16_s load16_u}
30     i>l    memarg:0      i64.{load8_s load8_u}
32     i>l    memarg:1      i64.{load16_s load16_u}
34     i>l    memarg:2      i64.{load32_s load32_u}
36     ii>    memarg:2      i32.store
37     il>    memarg:3      i64.store
38     if>    memarg:2      f32.store
39     id>    memarg:3      f64.store
3a     ii>    memarg:0      i32.store8
3b     ii>    memarg:1      i32.store16
3c     il>    memarg:0      i64.store8
3d     il>    memarg:1      i64.store16
3e     il>    memarg:2      i64.store32
3f     >i     memory        memory.size
40     i>i    memory        memory.grow
# constants
41     >i     i32           i32.const
42     >l     i64           i64.const
43     >f     f32           f32.const
44     >d     f64           f64.const
# comparisons
45     i>i    -             i32.eqz
46     ii>i   -             i32.{eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u}
50     l>i    -             i64.eqz
51     ll>i   -             i64.{eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u}
5b     ff>i   -             f32.{eq ne lt gt le ge}
61     dd>i   -             f64.{eq ne lt gt le ge}
# arithmetic
67     i>i    -             i32.{clz ctz popcnt}
6a     ii>i   -             i32.{add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr}
79     l>l    -             i64.{clz ctz popcnt}
7c     ll>l   -             i64.{add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr}
8b     f>f    -             f32.{abs neg ceil floor trunc nearest sqrt}
92     ff>f   -             f32.{add sub mul div min max copysign}
99     d>d    -             f64.{abs neg ceil floor trunc nearest sqrt}
a0     dd>d   -             f64.{add sub mul div min max copysign}
# conversions
a7     l>i    -             i32.wrap_i64
a8     f>i    -             i32.{trunc_f32_s trunc_f32_u}
aa     d>i    -             i32.{trunc_f64_s trunc_f64_u}
ac     i>l    -             i64.{extend_i32_s extend_i32_u}
ae     f>l    -             i64.{trunc_f32_s trunc_f32_u}
b0     d>l    -             i64.{trunc_f64_s trunc_f64_u}
b2     i>f    -             f32.{convert_i32_s convert_i32_u}
b4     l>f    -             f32.{convert_i64_s convert_i64_u}
b6     d>f    -             f32.demote_f64
b7     i>d    -             f64.{convert_i32_s convert_i32_u}
b9     l>d    -             f64.{convert_i64_s convert_i64_u}
bb     f>d    -             f64.promote_f32
bc     f>i    -             i32.reinterpret_f32
bd     d>l    -             i64.reinterpret_f64
be     i>f    -             f32.reinterpret_i32
bf     l>d    -             f64.reinterpret_i64
c0     i>i    -             i32.{extend8_s extend16_s}
c2     l>l    -             i64.{extend8_s extend16_s extend32_s}
fc 00  f>i    -             i32.{trunc_sat_f32_s trunc_sat_f32_u}
fc 02  d>i    -             i32.{trunc_sat_f64_s trunc_sat_f64_u}
fc 04  f>l    -             i64.{trunc_sat_f32_s trunc_sat_f32_u}
fc 06  d>l    -             i64.{trunc_sat_f64_s trunc_sat_f64_u}
# bulk memory and tables
fc 08  iii>   data,memory   memory.init
fc 09  >      data          data.drop
fc 0a  iii>   memory,memory memory.copy
fc 0b  iii>   memory        memory.fill
fc 0c  iii>   elem,table    table.init
fc 0d  >      elem          elem.drop
fc 0e  *      table,table   table.copy
fc 0f  *      table         table.grow
fc 10  >i     table         table.size
fc 11  *      table         table.fill
# SIMD: memory, constants, lanes
fd 00  i>v    memarg:4      v128.load
fd 01  i>v    memarg:3      v128.{load8x8_s load8x8_u load16x4_s load16x4_u load32x2_s load32x2_u}
fd 07  i>v    memarg:0      v128.load8_splat
fd 08  i>v    memarg:1      v128.load16_splat
fd 09  i>v    memarg:2      v128.load32_splat
fd 0a  i>v    memarg:3      v128.load64_splat
fd 0b  iv>    memarg:4      v128.store
fd 0c  >v     v128          v128.const
fd 0d  vv>v   shuffle       i8x16.shuffle
fd 0e  vv>v   -             i8x16.swizzle
fd 0f  i>v    -             i8x16.splat i16x8.splat i32x4.splat
fd 12  l>v    -             i64x2.splat
fd 13  f>v    -             f32x4.splat
fd 14  d>v    -             f64x2.splat
fd 15  v>i    lane:16       i8x16.{extract_lane_s extract_lane_u}
fd 17  vi>v   lane:16       i8x16.replace_lane
fd 18  v>i    lane:8        i16x8.{extract_lane_s extract_lane_u}
fd 1a  vi>v   lane:8        i16x8.replace_lane
fd 1b  v>i    lane:4        i32x4.extract_lane
fd 1c  vi>v   lane:4        i32x4.replace_lane
fd 1d  v>l    lane:2        i64x2.extract_lane
fd 1e  vl>v   lane:2        i64x2.replace_lane
fd 1f  v>f    lane:4        f32x4.extract_lane
fd 20  vf>v   lane:4        f32x4.replace_lane
fd 21  v>d    lane:2        f64x2.extract_lane
fd 22  vd>v   lane:2        f64x2.replace_lane
fd 54  iv>v   memarg:0,lane:16 v128.load8_lane
fd 55  iv>v   memarg:1,lane:8  v128.load16_lane
fd 56  iv>v   memarg:2,lane:4  v128.load32_lane
fd 57  iv>v   memarg:3,lane:2  v128.load64_lane
fd 58  iv>    memarg:0,lane:16 v128.store8_lane
fd 59  iv>    memarg:1,lane:8  v128.store16_lane
fd 5a  iv>    memarg:2,lane:4  v128.store32_lane
fd 5b  iv>    memarg:3,lane:2  v128.store64_lane
fd 5c  i>v    memarg:2      v128.load32_zero
fd 5d  i>v    memarg:3      v128.load64_zero
# SIMD: comparisons and bits
fd 23  vv>v   -             i8x16.{eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u}
fd 2d  vv>v   -             i16x8.{eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u}
fd 37  vv>v   -             i32x4.{eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u}
fd 41  vv>v   -             f32x4.{eq ne lt gt le ge}
fd 47  vv>v   -             f64x2.{eq ne lt gt le ge}
fd d6  vv>v   -             i64x2.{eq ne lt_s gt_s le_s ge_s}
fd 4d  v>v    -             v128.not
fd 4e  vv>v   -             v128.{and andnot or xor}
fd 52  vvv>v  -             v128.bitselect
fd 53  v>i    -             v128.any_true
# SIMD: integers
fd 60  v>v    -             i8x16.{abs neg popcnt}
fd 63  v>i    -             i8x16.{all_true bitmask}
fd 65  vv>v   -             i8x16.{narrow_i16x8_s narrow_i16x8_u}
fd 6b  vi>v   -             i8x16.{shl shr_s shr_u}
fd 6e  vv>v   -             i8x16.{add add_sat_s add_sat_u sub sub_sat_s sub_sat_u}
fd 76  vv>v   -             i8x16.{min_s min_u max_s max_u}
fd 7b  vv>v   -             i8x16.avgr_u
fd 7c  v>v    -             i16x8.{extadd_pairwise_i8x16_s extadd_pairwise_i8x16_u}
fd 7e  v>v    -             i32x4.{extadd_pairwise_i16x8_s extadd_pairwise_i16x8_u}
fd 80  v>v    -             i16x8.{abs neg}
fd 82  vv>v   -             i16x8.q15mulr_sat_s
fd 83  v>i    -             i16x8.{all_true bitmask}
fd 85  vv>v   -             i16x8.{narrow_i32x4_s narrow_i32x4_u}
fd 87  v>v    -             i16x8.{extend_low_i8x16_s extend_high_i8x16_s extend_low_i8x16_u extend_high_i8x16_u}
fd 8b  vi>v   -             i16x8.{shl shr_s shr_u}
fd 8e  vv>v   -             i16x8.{add add_sat_s add_sat_u sub sub_sat_s sub_sat_u}
fd 95  vv>v   -             i16x8.{mul min_s min_u max_s max_u - avgr_u}
fd 9c  vv>v   -             i16x8.{extmul_low_i8x16_s extmul_high_i8x16_s extmul_low_i8x16_u extmul_high_i8x16_u}
fd a0  v>v    -             i32x4.{abs neg}
fd a3  v>i    -             i32x4.{all_true bitmask}
fd a7  v>v    -             i32x4.{extend_low_i16x8_s extend_high_i16x8_s extend_low_i16x8_u extend_high_i16x8_u}
fd ab  vi>v   -             i32x4.{shl shr_s shr_u}
fd ae  vv>v   -             i32x4.{add - - sub - - - mul min_s min_u max_s max_u dot_i16x8_s}
fd bc  vv>v   -             i32x4.{extmul_low_i16x8_s extmul_high_i16x8_s extmul_low_i16x8_u extmul_high_i16x8_u}
fd c0  v>v    -             i64x2.{abs neg}
fd c3  v>i    -             i64x2.{all_true bitmask}
fd c7  v>v    -             i64x2.{extend_low_i32x4_s extend_high_i32x4_s extend_low_i32x4_u extend_high_i32x4_u}
fd cb  vi>v   -             i64x2.{shl shr_s shr_u}
fd ce  vv>v   -             i64x2.{add - - sub - - - mul}
fd dc  vv>v   -             i64x2.{extmul_low_i32x4_s extmul_high_i32x4_s extmul_low_i32x4_u extmul_high_i32x4_u}
# SIMD: floats and conversions
fd 67  v>v    -             f32x4.{ceil floor trunc nearest}
fd 74  v>v    -             f64x2.{ceil floor}
fd 7a  v>v    -             f64x2.trunc
fd 94  v>v    -             f64x2.nearest
fd e0  v>v    -             f32x4.{abs neg - sqrt}
fd e4  vv>v   -             f32x4.{add sub mul div min max pmin pmax}
fd ec  v>v    -             f64x2.{abs neg - sqrt}
fd f0  vv>v   -             f64x2.{add sub mul div min max pmin pmax}
fd 5e  v>v    -             f32x4.demote_f64x2_zero f64x2.promote_low_f32x4
fd f8  v>v    -             i32x4.{trunc_sat_f32x4_s trunc_sat_f32x4_u}
fd fa  v>v    -             f32x4.{convert_i32x4_s convert_i32x4_u}
fd fc  v>v    -             i32x4.{trunc_sat_f64x2_s_zero trunc_sat_f64x2_u_zero}
fd fe  v>v    -             f64x2.{convert_low_i32x4_s convert_low_i32x4_u}
# relaxed SIMD
fd 100 vv>v   -             i8x16.relaxed_swizzle
fd 101 v>v    -             i32x4.{relaxed_trunc_f32x4_s relaxed_trunc_f32x4_u}
fd 103 v>v    -             i32x4.{relaxed_trunc_f64x2_s_zero relaxed_trunc_f64x2_u_zero}
fd 105 vvv>v  -             f32x4.{relaxed_madd relaxed_nmadd}
fd 107 vvv>v  -             f64x2.{relaxed_madd relaxed_nmadd}
fd 109 vvv>v  -             i8x16.relaxed_laneselect i16x8.relaxed_laneselect
fd 10b vvv>v  -             i32x4.relaxed_laneselect i64x2.relaxed_laneselect
fd 10d vv>v   -             f32x4.{relaxed_min relaxed_max}
fd 10f vv>v   -             f64x2.{relaxed_min relaxed_max}
fd 111 vv>v   -             i16x8.{relaxed_q15mulr_s relaxed_dot_i8x16_i7x16_s}
fd 113 vvv>v  -             i32x4.relaxed_dot_i8x16_i7x16_add_s
# threads
fe 00  ii>i   memarg:2      memory.atomic.notify
fe 01  iil>i  memarg:2      memory.atomic.wait32
fe 02  ill>i  memarg:3      memory.atomic.wait64
fe 03  >      zero          atomic.fence
fe 10  i>i    memarg:2      i32.atomic.load
fe 11  i>l    memarg:3      i64.atomic.load
fe 12  i>i    memarg:0      i32.atomic.load8_u
fe 13  i>i    memarg:1      i32.atomic.load16_u
fe 14  i>l    memarg:0      i64.atomic.load8_u
fe 15  i>l    memarg:1      i64.atomic.load16_u
fe 16  i>l    memarg:2      i64.atomic.load32_u
fe 17  ii>    memarg:2      i32.atomic.store
fe 18  il>    memarg:3      i64.atomic.store
fe 19  ii>    memarg:0      i32.atomic.store8
fe 1a  ii>    memarg:1      i32.atomic.store16
fe 1b  il>    memarg:0      i64.atomic.store8
fe 1c  il>    memarg:1      i64.atomic.store16
fe 1d  il>    memarg:2      i64.atomic.store32
"""

# The read-modify-write families repeat one pattern of seven widths.
_RMW_FIRST = 0x1E
_RMW_OPS = ("add", "sub", "and", "or", "xor", "xchg", "cmpxchg")
_RMW_WIDTHS = (
    ("i32.atomic.rmw.{}", "i", 2),
    ("i64.atomic.rmw.{}", "l", 3),
    ("i32.atomic.rmw8.{}_u", "i", 0),
    ("i32.atomic.rmw16.{}_u", "i", 1),
    ("i64.atomic.rmw8.{}_u", "l", 0),
    ("i64.atomic.rmw16.{}_u", "l", 1),
    ("i64.atomic.rmw32.{}_u", "l", 2),
)

_LETTERS = {"i": "i32", "l": "i64", "f": "f32", "d": "f64", "v": "v128"}
VALUE_TYPES = {"i32": 0x7F, "i64": 0x7E, "f32": 0x7D, "f64": 0x7C, "v128": 0x7B, "funcref": 0x70, "externref": 0x6F}


def _types(letters: str) -> tuple[str, ...]:
    return tuple(_LETTERS[letter] for letter in letters)


def _rows() -> list[tuple[list[str], str, str, str]]:
    """(code words, signature, immediates, names) of every line, the generated ones included."""
    rows = []
    for line in _TABLE.strip().splitlines():
        if line.startswith("#"):
            continue
        head = 2 if line[:2] in ("fc", "fd", "fe") else 1
        words = line.split(None, head + 2)
        rows.append((words[:head], words[head], words[head + 1], words[head + 2]))
    for i, op in enumerate(_RMW_OPS):
        for j, (name, letter, align) in enumerate(_RMW_WIDTHS):
            extra = letter if op == "cmpxchg" else ""
            code = f"{_RMW_FIRST + 7 * i + j:x}"
            rows.append((["fe", code], f"i{letter}{extra}>{letter}", f"memarg:{align}", name.format(op)))
    return rows


def _names(text: str) -> list[str]:
    """Expand "i32.{a b}" to "i32.a", "i32.b"."""
    if "{" not in text:
        return text.split()
    stem, _, rest = text.partition("{")
    return [name if name == "-" else stem + name for name in rest.rstrip("}").split()]


CODE: dict[str, bytes] = {}
"""Name -> code."""
IMMEDIATES: dict[str, tuple[str, ...]] = {}
"""Name -> immediates, of those that have some. A lane count tells how far the index may go; it stays in the kind, as in
"lane:4"."""
_REST: list[tuple[str, str, int]] = []
"""(name, signature, alignment) of each, in their order."""

for _words, _signature, _kinds, _text in _rows():
    _prefix, _first = bytes.fromhex(_words[0]) if len(_words) == 2 else b"", int(_words[-1], 16)
    _split = [_kind.partition(":") for _kind in _kinds.split(",")] if _kinds != "-" else []
    _immediates = tuple(f"lane:{_size}" if _kind == "lane" else _kind for _kind, _, _size in _split)
    _align = next((int(_size) for _kind, _, _size in _split if _kind == "memarg"), 0)
    for _number, _name in enumerate(_names(_text), _first):
        if _name == "-":
            continue
        CODE[_name] = _prefix + uleb(_number) if _prefix else bytes([_number])
        if _immediates:
            IMMEDIATES[_name] = _immediates
        _REST.append((_name, _signature, _align))


@cache
def opcodes() -> dict[str, Opcode]:
    """Name -> all that is known of an instruction."""
    table = {}
    for name, signature, align in _REST:
        params, _, results = signature.replace("*", "").partition(">")
        table[name] = Opcode(
            name, CODE[name], _types(params), _types(results), IMMEDIATES.get(name, ()), align, signature == "*"
        )
    return table
