"""Faults of single operations of a kernel: their types, lanes and immediates against the table (`loop/ops.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import counted
from ..hlo.types import TYPES
from .ir import Func, Val
from .ops import CONVERT, INTEGERS, WIDE, Op, fits, instructions, lane_bytes, register
from .text import Names, typed

_KNOWN: set[tuple[object, ...]] = set()
"""Operations with the types and lanes of their results and operands that are as the table says: few, and met often."""


def signature_fault(val: Val, op: Op, names: Names) -> str:
    """Returns the fault of a value's types and lanes by its row of the table; empty if there is none."""
    signature = (val.op, val.dtype, val.lanes, *[(arg.dtype, arg.lanes) for arg in val.args])
    if signature in _KNOWN:
        return ""
    fault = next(_faults(val, op, names), "")
    if not fault:
        _KNOWN.add(signature)
    return fault


def immediate_fault(val: Val, op: Op, func: Func) -> str:
    """Returns the fault of a value's immediate; empty if it is of the kind that its row of the table names."""
    kind = op.immediate
    return "" if _IMMEDIATES.get(kind, _is_name)(val, func) else f"{val.imm!r} is no {kind or 'immediate'} of {val.op}"


# --- types and lanes --------------------------------------------------------------------------------------------------


def _faults(val: Val, op: Op, names: Names) -> Iterator[str]:
    tokens = list(op.operands)
    if tokens and tokens[-1].endswith("*"):
        tokens[-1:] = [tokens[-1][:-1]] * (len(val.args) - len(tokens) + 1)
    if len(tokens) != len(val.args):
        yield f"{val.op} takes {counted(len(op.operands), 'operand')}, not {len(val.args)}"
    typed_by = [(op.result, val), *zip(tokens, val.args)]
    dtype = next((x.dtype for token, x in typed_by if token[0] in "tT"), "")
    lanes = next((x.lanes for token, x in typed_by if token[-1].isalpha()), 1)
    if dtype and dtype not in op.types and f"{dtype}x{lanes}" not in op.types:
        yield f"{val.op} does not work on {dtype}{f'x{lanes}' if lanes > 1 else ''}"
    for number, (token, x) in enumerate(typed_by):
        role = f"operand {number} {names.of(x)}" if number else "the result"
        wanted = {"": lanes, "1": 1, "2": 2 * lanes, "4": 4 * lanes, "'": lanes // 2}[token[1:]]
        if x.lanes != wanted or (token[0] == "T" and x.lanes == 1):
            yield f"{role} has {x.lanes} lanes, not {wanted if wanted > 1 else 'those of a vector'}"
        if not _matches(token[0], x.dtype, dtype):
            yield f"{role} is {typed(x)}, which {val.op}{f' of {dtype}' if dtype else ''} does not take"
        if not fits(x.dtype, x.lanes):
            yield f"{role} is {typed(x)}: a vector has not so many lanes of the type"
    if op.form == "wider" and instructions(val.op, val.args[0].dtype, val.lanes) is None:
        yield f"there is no such instruction for {typed(val)}"


def _matches(letter: str, dtype: str, t: str) -> bool:
    """Returns True if a type is what a letter of a signature allows."""
    if letter in "tT":
        return dtype == t
    if letter == "w":
        integers = dtype[0] in "su" and t[0] in "su"
        return dtype == t or (integers and TYPES[dtype].bits == TYPES[t].bits)
    fixed = {"p": "pred", "a": "u32", "s": "s32", "b": "s8", "c": "s16"}.get(letter)
    if fixed is not None:
        return dtype == fixed
    if letter == "i":
        return dtype in INTEGERS
    if letter in "hd":
        if "pred" in (dtype, t):
            return dtype == t
        factor = 2 if letter == "d" else 1
        return TYPES[dtype].bits * (2 if letter == "h" else 1) == TYPES[t].bits * factor and dtype[0] in (
            "s" if letter == "d" else "su"
        )
    return letter == "x"


def _converts(val: Val) -> bool:
    """Returns True if a bitcast keeps the register, and a conversion is one that there is."""
    (x,) = val.args
    if val.op == "bitcast":
        if val.lanes > 1:
            return lane_bytes(x.dtype, x.lanes) == lane_bytes(val.dtype, val.lanes)
        return register(x.dtype)[1:] == register(val.dtype)[1:]
    return (x.dtype, val.dtype) in CONVERT


# --- immediates -------------------------------------------------------------------------------------------------------


def _is_below(limit: Callable[[Val, Func], int]) -> Callable[[Val, Func], bool]:
    return lambda val, func: isinstance(val.imm, int) and 0 <= val.imm < limit(val, func)


def _is_name(val: Val, _: Func) -> bool:
    return isinstance(val.imm, str) and val.imm != ""


def _is_place(val: Val, _: Func) -> bool:
    """An offset and a stride; those of an operation on one element, or on neighbours, are fixed."""
    if not isinstance(val.imm, tuple) or len(val.imm) != 2:
        return False
    offset, stride = val.imm
    return offset >= 0 and stride in {"load": (0,), "load_splat": (0,), "load_vector": (1,)}.get(val.op, (stride or 1,))


def _lanes(val: Val, _: Func) -> int:
    return val.args[0].lanes if val.args else val.lanes


def _are_lanes(val: Val, func: Func) -> bool:
    """Lanes of two vectors, one for each of the result's."""
    lanes = _lanes(val, func)
    return isinstance(val.imm, tuple) and len(val.imm) == lanes and all(0 <= lane < 2 * lanes for lane in val.imm)


_IMMEDIATES: dict[str, Callable[[Val, Func], bool]] = {
    "": lambda val, _: val.imm is None,
    "bits": _is_below(lambda val, _: 1 << (64 if val.dtype in WIDE else 32)),
    "buffer": _is_below(lambda _, func: func.pointers),
    "coefficient": lambda val, _: isinstance(val.imm, int),
    "place": _is_place,
    "lane": _is_below(_lanes),
    "lanes": _are_lanes,
    "type": lambda val, _: val.imm == val.args[0].dtype and _converts(val),
    "shift": lambda val, _: val.imm in ("shl", "shr_s", "shr_u"),
}
"""Kind of an immediate -> whether a value's is one; of all other kinds it is a name."""
