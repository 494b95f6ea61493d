"""The factorisations that JAX asks a TPU's compiler for, by the calls of LAPACK that mean the same."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer
from .expand_lapack import FUNCTIONS, TYPES


def _as_lapack(e: Writer, x: Instruction, name: str, config: str = "") -> list[Instruction]:
    """The results of the call as a call of LAPACK, info among them where there is one."""
    element_type = x.operands[0].shape.element_type if x.operands else ""
    if element_type not in TYPES.values():
        raise UnsupportedError(
            f"{x.where}: {x.attrs['custom_call_target']} is supported for {', '.join(TYPES.values())}, not "
            f"{element_type}"
        )
    call = x.on(x.operands)
    call.attrs["backend_config"] = config
    return e.results(FUNCTIONS[name](e, call, element_type))


def _eigh(e: Writer, x: Instruction) -> Instruction:
    """Configured by whether the lower triangle is read, whether eigenvalues are sorted (they always are here), and two
    bounds."""
    config = x.attrs.get("backend_config") or b""
    text = config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)
    lower = text.partition(",")[0].strip()
    if lower not in ("0", "1"):
        raise UnsupportedError(
            f"{x.where}: Eigh needs 0 or 1 for its triangle, and more behind a comma; found {text!r}"
        )
    vectors, values, info = _as_lapack(e, x, "syevd", f"uplo = {ord('UL'[int(lower)])}, mode = {ord('V')}")
    failed = e.compare("NE", info, 0)

    def checked(a: Instruction) -> Instruction:
        dims = a.shape.dimensions
        nan = e.convert(e.full("f32", dims, float("nan")), a.shape.element_type)
        return e.select(e.broadcast(failed, dims, tuple(range(failed.shape.rank))), nan, a)

    return e.tuple([checked(vectors), checked(values)])


def _qr(e: Writer, x: Instruction) -> Instruction:
    return e.tuple(_as_lapack(e, x, "geqrf")[:2])


def _householder_product(e: Writer, x: Instruction) -> Instruction:
    return _as_lapack(e, x, "orgqr")[0]


def _lu(e: Writer, x: Instruction) -> Instruction:
    """Both factors, the pivots from 0, and the permutation of the rows that they make up."""
    factors, pivots, _ = _as_lapack(e, x, "getrf")
    pivots = e.sub(pivots, 1)
    *batch, m, _ = x.operands[0].shape.dimensions
    dims, last = (*batch, m), len(batch)
    rows, over = e.iota("s32", dims, last), tuple(range(last))

    def exchanged(
        e: Writer, i: Instruction, order: Instruction, pivots: Instruction, rows: Instruction
    ) -> list[Instruction]:
        """The order after the exchange of row i with its pivot's."""
        nothing = e.scalar("s32", 0)
        here = e.compare("EQ", rows, e.broadcast(i, dims))
        place = e.reshape(e.dynamic_slice(pivots, [*[nothing] * last, i], (*batch, 1)), tuple(batch))
        there = e.compare("EQ", rows, e.broadcast(place, dims, over))

        def picked(mask: Instruction) -> Instruction:
            value = e.reduce(e.select(mask, order, e.full("s32", dims, 0)), nothing, (last,), "add")
            return e.broadcast(value, dims, over)

        return [e.select(here, picked(there), e.select(there, picked(here), order)), pivots, rows]

    steps = pivots.shape.dimensions[-1]
    order = e.for_(steps, [rows, pivots, rows], exchanged)[0]
    return e.tuple([factors, pivots, order])


TPU: dict[str, Rule] = {
    "Eigh": _eigh,
    "Qr": _qr,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "LuDecomposition": _lu,
}
"""Target of a custom call -> rule."""
