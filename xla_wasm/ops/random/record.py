"""Records of random numbers."""

from __future__ import annotations

from ...hlo.infer import array, brief, broken, declared, need_kind, need_scalar
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Narrow, Op
from ...hlo.shape import Shape
from ...hlo.types import TYPES

FIRST_STATE = 0x7012395
"""The state of rng-get-and-update-state before the first run."""


def _rng(instr: Instruction) -> Shape:
    shape = declared(instr)
    if instr.attrs["distribution"] not in ("rng_uniform", "rng_normal"):
        raise broken(instr, 2, f"distribution must be rng_uniform or rng_normal, not {instr.attrs['distribution']!r}")
    for index in range(2):
        need_scalar(instr, index, shape.element_type, 3)
    return shape


def _rng_bit_generator(instr: Instruction) -> Shape:
    state = array(instr, 0)
    algorithm, sizes = (
        instr.attrs["algorithm"],
        {"rng_three_fry": ((2,),), "rng_philox": ((2,), (3,)), "rng_default": ((2,), (3,))},
    )
    if algorithm not in sizes:
        raise broken(instr, 1, f"algorithm must be {', '.join(sizes)}, not {algorithm!r}")
    if state.element_type != "u64" or state.dimensions not in sizes[algorithm]:
        allowed = " or ".join(f"u64[{size}]" for (size,) in sizes[algorithm])
        raise broken(instr, 2, f"the state of {algorithm} must be {allowed}, not {brief(state)}")
    if len(instr.shape.tuple_shapes) != 2:
        raise broken(instr, 3, f"the result shape must be given as (state, bits), not {brief(instr.shape)}")
    bits = instr.shape.tuple_shapes[1]
    need_kind(instr, bits.element_type, ("signed", "unsigned", "float"), 3, "the bits")
    if TYPES[bits.element_type].bits not in (4, 8, 16, 32, 64):
        raise broken(instr, 3, f"there are no random {bits.element_type}")
    return Shape.tuple([state.without_layout(), bits.without_layout()])


def _rng_get_and_update_state(instr: Instruction) -> Shape:
    return Shape("u64", (1,) if instr.shape.dimensions == (1,) else (2,))  # XLA lets a module ask for the low half only


OPS: tuple[Op, ...] = (
    Op(
        "rng",
        (2, 2),
        _rng,
        (Attr("distribution", "distribution", (23,), REQUIRED, "rng_distribution"),),
        effect=True,
        narrow=Narrow.COMPUTED,
        doc="Random numbers from [a, b), or normal with a mean and a deviation; their values are not promised.",
        constraints=(
            "The result is an array.",
            "distribution is rng_uniform or rng_normal.",
            "The operands are scalars of the result's type.",
        ),
    ),
    Op(
        "rng-bit-generator",
        (1, 1),
        _rng_bit_generator,
        (Attr("algorithm", "rng_algorithm", (70,), REQUIRED, "rng_algorithm"),),
        doc="The next state of a counter-based generator, and random bits.",
        constraints=(
            "algorithm is rng_default, rng_three_fry or rng_philox.",
            "The state is u64[2], or u64[3] unless the algorithm is rng_three_fry.",
            "The result is (state, bits); the bits are integers or floats of 4, 8, 16, 32 or 64 bits.",
        ),
    ),
    Op(
        "rng-get-and-update-state",
        (0, 0),
        _rng_get_and_update_state,
        (Attr("delta", "int", (66,), REQUIRED),),
        effect=True,
        doc="The 128-bit state of the module's generator as u64[2], low half first; `delta` is added to it afterwards.",
    ),
)
