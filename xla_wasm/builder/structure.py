"""XlaBuilder's parameters, tuples, calls, loops and branches; random numbers; tokens and exchange with the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import VerifyError
from ..hlo.infer import brief
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from .core import Core


class Structure(Core):
    """The parts of a computation besides arithmetic."""

    def Parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        """Parameter `number` of the computation."""
        return self.parameter(number, shape, name)

    def parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        """As Parameter."""
        if number in self._numbers:
            raise VerifyError(f"parameter: number {number} of '{self.name}' is taken")
        made = super().parameter(number, shape, name)
        self._numbers.add(number)
        return made

    def Tuple(self, elements: Sequence[Instruction]) -> Instruction:
        """A tuple of values.

        >>> b.Tuple([b.Constant([1, 2]), b.Constant(3, "s32")])
        (f32[2] [1.0, 2.0], s32[] 3)
        """
        return self.op("tuple", *elements)

    def GetTupleElement(self, tuple_data: Instruction, index: int) -> Instruction:
        """One element of a tuple.

        >>> b.GetTupleElement(b.Tuple([b.Constant([1, 2]), b.Constant(3, "s32")]), 1)
        s32[] 3
        """
        return self.get_tuple_element(tuple_data, index)

    def Call(self, computation: Computation, operands: Sequence[Instruction]) -> Instruction:
        """The result of a computation.

        >>> b.Call(add, [b.Constant(1), b.Constant(2)])
        f32[] 3.0
        """
        return self.op("call", *operands, called=[computation])

    def CompositeCall(
        self,
        computation: Computation,
        operands: Sequence[Instruction],
        name: str,
        attributes: str = "{}",
        version: int = 0,
    ) -> Instruction:
        """A call that says which operation the computation stands for: its name, attributes (as MLIR writes them) and
        version.

        >>> b.CompositeCall(add, [b.Constant(1), b.Constant(2)], "my.sum", "{n = 1 : i64}", 1)
        f32[] 3.0
        """
        call = self.op("call", *operands, called=[computation], is_composite=True)
        facts = {"name": name, "attributes": attributes, "version": str(version)}
        call.frontend_attributes |= {f"composite.{key}": value for key, value in facts.items()}
        return call

    def While(self, condition: Computation, body: Computation, init: Instruction) -> Instruction:
        """The state after `body` ran on it for as long as `condition` held; its shape never changes.

        >>> b.While(below_100, double, b.Constant(3))
        f32[] 192.0
        """
        return self.op("while", init, called=[body, condition])

    def Conditional(self, *arguments: Any, **keywords: Any) -> Instruction:
        """`Conditional(branch_index, branch_computations, branch_operands)`: the result of one branch, the last if the
        s32 index is none. Or `Conditional(predicate, true_operand, true_computation, false_operand,
        false_computation)`.

        >>> b.Conditional(b.Constant(7, "s32"), [double, negate], [b.Constant(3), b.Constant(4)])
        f32[] -4.0
        >>> b.Conditional(b.Constant(True, "pred"), b.Constant(3), double, b.Constant(4), negate)
        f32[] 6.0
        """
        return (self._either if len(arguments) + len(keywords) > 3 else self._branch)(*arguments, **keywords)

    def _branch(
        self,
        branch_index: Instruction,
        branch_computations: Sequence[Computation],
        branch_operands: Sequence[Instruction],
    ) -> Instruction:
        return self.op("conditional", branch_index, *branch_operands, called=branch_computations)

    def _either(
        self,
        predicate: Instruction,
        true_operand: Instruction,
        true_computation: Computation,
        false_operand: Instruction,
        false_computation: Computation,
    ) -> Instruction:
        if self._array("conditional", predicate).without_layout() != Shape("pred"):
            raise VerifyError(f"conditional: the predicate must be pred[], not {brief(predicate.shape)}")
        return self.op(
            "conditional", predicate, true_operand, false_operand, called=[true_computation, false_computation]
        )

    def OptimizationBarrier(self, operand: Instruction) -> Instruction:
        """The operand; nothing is moved across.

        >>> b.OptimizationBarrier(b.Tuple([b.Constant(1), b.Constant(2)]))
        (f32[] 1.0, f32[] 2.0)
        """
        return self.op("opt-barrier", operand)

    def RngUniform(self, a: Instruction, b: Instruction, shape: Shape) -> Instruction:
        """Random numbers from [a, b), scalars of the shape's type; their values are not promised."""
        return self.op("rng", a, b, shape=shape, distribution="rng_uniform")

    def RngNormal(self, mu: Instruction, sigma: Instruction, shape: Shape) -> Instruction:
        """Normally distributed random numbers with a mean and a deviation; their values are not promised."""
        return self.op("rng", mu, sigma, shape=shape, distribution="rng_normal")

    def RngBitGenerator(self, algorithm: str, initial_state: Instruction, shape: Shape) -> Instruction:
        """(new state, bits of that shape); the algorithm is RNG_DEFAULT, RNG_THREE_FRY or RNG_PHILOX.

        >>> b.RngBitGenerator("RNG_THREE_FRY", b.Constant([0, 0], "u64"), Shape("u64", (1,)))
        (u64[2] [0, 1], u64[1] [11077253088097075545])
        """
        whole = Shape.tuple([initial_state.shape.without_layout(), shape])
        return self.op("rng-bit-generator", initial_state, shape=whole, algorithm=algorithm.lower())

    def AfterAll(self, tokens: Sequence[Instruction]) -> Instruction:
        """A token that comes after all of them; after nothing if there are none."""
        return self.op("after-all", *tokens)

    def Infeed(self, shape: Shape, config: str | bytes = b"") -> Instruction:
        """The next item that the host feeds in."""
        whole = Shape.tuple([shape, Shape("token")])
        return self.get_tuple_element(
            self.op("infeed", self.AfterAll([]), shape=whole, infeed_config=_bytes(config)), 0
        )

    def Outfeed(self, operand: Instruction, shape_with_layout: Shape, outfeed_config: str | bytes = b"") -> Instruction:
        """Hands the operand to the host, in the layout of a shape; a token."""
        if operand.shape.without_layout() != shape_with_layout.without_layout():
            raise VerifyError(f"outfeed: shape_with_layout is {shape_with_layout}, the operand {brief(operand.shape)}")
        attrs: dict[str, Any] = {"outfeed_shape": shape_with_layout, "outfeed_config": _bytes(outfeed_config)}
        return self.op("outfeed", operand, self.AfterAll([]), **attrs)

    def Send(self, operand: Instruction, handle: int) -> Instruction:
        """Sends the operand over the channel of that number; a token."""
        sent = self.op("send", operand, self.AfterAll([]), channel_id=handle)
        return self.op("send-done", sent, channel_id=handle)

    def Recv(self, shape: Shape, handle: int) -> Instruction:
        """Returns an array of this shape, received over the channel of that number."""
        whole = Shape.tuple([shape, Shape("u32"), Shape("token")])
        received = self.op("recv", self.AfterAll([]), shape=whole, channel_id=handle)
        return self.get_tuple_element(self.op("recv-done", received, channel_id=handle), 0)


def _bytes(config: str | bytes) -> bytes:
    return config.encode() if isinstance(config, str) else config
