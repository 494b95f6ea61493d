"""Scalar operations in wasm instructions: (operation, HLO type, lanes) -> instruction names. The one authority.

An entry is a sequence of wasm instructions applied to the operands on the stack. An operation that a vector form does
not have here is computed lane by lane from its scalar form.
"""

from __future__ import annotations

from ..hlo.types import TYPES

REGISTER = {"f32": "f32", "f64": "f64", "s64": "i64", "u64": "i64"}
"""The wasm type that holds a scalar; all other types live in an i32."""


def register(dtype: str, lanes: int = 1) -> str:
    """The wasm value type of a value."""
    return "v128" if lanes > 1 else REGISTER.get(dtype, "i32")


def unsigned(dtype: str) -> bool:
    """Whether registers extend a value by zeros: small floats are raw bits there."""
    return TYPES[dtype].kind in ("unsigned", "pred", "float")


_FLOAT = {
    op: op for op in ("add", "sub", "mul", "div", "min", "max", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "nearest", "copysign")
}
_FLOAT |= {op: op for op in ("eq", "ne", "lt", "le", "gt", "ge")}
_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr_s": "shr_s", "shr_u": "shr_u"}
_INT |= {"eq": "eq", "ne": "ne", "clz": "clz", "popcnt": "popcnt"}
_SIGNED = {"div": "div", "rem": "rem", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}

_BITWISE = {"and": "v128.and", "or": "v128.or", "xor": "v128.xor", "andnot": "v128.andnot", "not": "v128.not"}
_LANES64_UNSIGNED_MISSING = ("lt", "le", "gt", "ge")


def scalar_code(op: str, dtype: str) -> tuple[str, ...] | None:
    """Instructions of a scalar operation, or None if `emit` composes it."""
    reg = register(dtype)
    if dtype in ("f32", "f64"):
        return (f"{reg}.{_FLOAT[op]}",) if op in _FLOAT else None
    if op in _INT:
        return (f"{reg}.{_INT[op]}",)
    if op in _SIGNED:
        return (f"{reg}.{_SIGNED[op]}_{'u' if unsigned(dtype) else 's'}",)
    return None


def vector_code(op: str, dtype: str, lanes: int) -> tuple[str, ...] | None:
    """Instructions of a vector operation, or None if there are none.

    `dtype` is that of the operands. Comparisons give a mask as wide as a lane: four lanes of 32 or two of 64 bits, so
    on 32-bit operands in two lanes the mask is widened.
    """
    if op in _BITWISE:
        return (_BITWISE[op],)
    if dtype == "pred":
        form = "i32x4" if lanes == 4 else "i64x2"
        if op in ("eq", "ne"):
            return (f"{form}.{op}",)
        return {"max": ("v128.or",), "min": ("v128.and",), "add": ("v128.or",), "mul": ("v128.and",)}.get(op)
    wide = dtype in ("f64", "s64", "u64")
    if dtype in ("f32", "f64"):
        form = "f64x2" if wide else "f32x4"
        if op in ("madd", "nmadd"):
            return (f"{form}.relaxed_{op}",)
        if op in ("pmin", "pmax") or (op in _FLOAT and op not in ("copysign", "eq", "ne", "lt", "le", "gt", "ge")):
            return (f"{form}.{op}",)
        compare = f"{form}.{op}" if op in ("eq", "ne", "lt", "le", "gt", "ge") else None
    else:
        form = "i64x2" if wide else "i32x4"
        if op in ("add", "sub", "mul", "neg", "shl", "shr_s", "shr_u"):
            return (f"{form}.{op}",)
        if op == "abs" and not unsigned(dtype):
            return (f"{form}.abs",)
        if op in ("min", "max") and not wide:
            return (f"i32x4.{op}_{'u' if unsigned(dtype) else 's'}",)
        if op in ("eq", "ne"):
            compare = f"{form}.{op}"
        elif op in ("lt", "le", "gt", "ge"):
            if wide and unsigned(dtype):
                return None
            compare = f"{form}.{op}_{'u' if unsigned(dtype) else 's'}"
        else:
            return None
    if compare is None:
        return None
    return (compare,) if wide or lanes == 4 else (compare, "i64x2.extend_low_i32x4_s")


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
"""Vector conversions. In kernels of two lanes a 32-bit type lies in the low half of its vector."""
