"""The record of the fast Fourier transform."""

from __future__ import annotations

from ...hlo.infer import array, brief, broken, result
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Op
from ...hlo.shape import Shape
from ...hlo.types import COMPLEX_OF, REAL_OF


def _fft(instr: Instruction) -> Shape:
    shape, kind, lengths = array(instr, 0), instr.attrs["fft_type"], instr.attrs["fft_length"]
    if kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        raise broken(instr, 1, f"fft_type must be FFT, IFFT, RFFT or IRFFT, not {kind!r}")
    types = COMPLEX_OF if kind == "RFFT" else REAL_OF
    if shape.element_type not in types:
        raise broken(instr, 2, f"{kind} takes {' or '.join(types)}, not {shape.element_type}")
    if not 1 <= len(lengths) <= min(3, shape.rank) or any(length < 0 for length in lengths):
        raise broken(instr, 3, f"fft_length {lengths[:8]} does not fit {brief(shape)}")
    half = lengths[-1] // 2 + 1 if lengths[-1] else 0
    before = (*lengths[:-1], half) if kind == "IRFFT" else (*lengths,)
    after = (*lengths[:-1], half) if kind == "RFFT" else lengths
    batch = shape.dimensions[: shape.rank - len(lengths)]
    if shape.dimensions[len(batch) :] != before:
        if shape.size == 0 and kind in ("FFT", "IFFT"):  # nothing to transform
            return result(instr, shape.element_type, shape.dimensions)
        raise broken(instr, 4, f"the last dimensions of {brief(shape)} are not {before}, which fft_length asks for")
    element_type = shape.element_type if kind in ("FFT", "IFFT") else types[shape.element_type]
    return result(instr, element_type, (*batch, *after))


OPS: tuple[Op, ...] = (
    Op(
        "fft",
        (1, 1),
        _fft,
        (Attr("fft_type", "fft_type", (31,), REQUIRED), Attr("fft_length", "ints", (32,), REQUIRED)),
        complex=True,
        doc="The discrete Fourier transform of the last dimensions; RFFT and IRFFT hold only half of a spectrum in "
        "the last one.",
        constraints=(
            "fft_type is FFT, IFFT, RFFT or IRFFT.",
            "The operand is c64 or c128; for RFFT f32 or f64.",
            "fft_length has one to three lengths, not more than the operand has dimensions.",
            "They are the last sizes of the operand, unless FFT or IFFT get an empty one; IRFFT takes a last size of "
            "length / 2 + 1.",
        ),
    ),
)
