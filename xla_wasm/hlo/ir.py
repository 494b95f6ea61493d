"""The HLO graph: Module, Computation, Instruction. Mutable, so that passes can rewrite it in place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import counted
from .attrs import Metadata
from .marks import UNMARKED
from .shape import Layout, Shape

if TYPE_CHECKING:
    from .literal import Literal

Kept = dict[str, tuple[Any, dict[str, Any]]]
"""name -> (value, fields). A value that was read from messages that hold fields this version does not know, and these
messages: they are written back while the value stays what it is."""


class Instruction:
    """One HLO instruction.

    `attrs` maps an attribute's name in HLO text ("dimensions", "index", "direction", "literal", "window", ...) to a
    typed value (int, bool, str, tuple of ints, a class of `hlo.attrs`, a Literal). The instruction's op record
    (`op.records()[opcode]`) says which attributes it has; those with a default are always present.
    `called` lists the called computations in the proto's order (a while has [body, condition]). `marks` are what passes
    have found out or decided about the instruction.
    """

    __slots__ = (
        *("name", "opcode", "shape", "operands", "attrs", "called", "marks"),
        *("metadata", "frontend_attributes", "control_predecessors", "unknown", "kept"),
    )

    def __init__(
        self,
        name: str,
        opcode: str,
        shape: Shape,
        operands: list[Instruction] | None = None,
        attrs: dict[str, Any] | None = None,
        called: list[Computation] | None = None,
        metadata: Metadata | None = None,
    ):
        self.name = name
        self.opcode = opcode
        self.shape = shape
        self.operands: list[Instruction] = operands if operands is not None else []
        self.attrs: dict[str, Any] = attrs if attrs is not None else {}
        self.called: list[Computation] = called if called is not None else []
        self.marks = UNMARKED
        self.metadata = metadata
        self.frontend_attributes: dict[str, str] = {}
        self.control_predecessors: list[Instruction] = []
        self.unknown = b""
        """Wire bytes of the fields this version does not know, written back as they were."""
        self.kept: Kept | None = None

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return f"{self.name} = {self.shape} {self.opcode}({operands})"

    def on(self, operands: Iterable[Instruction]) -> Instruction:
        """A copy of the instruction on other operands, perhaps in another computation: without control predecessors."""
        own = [*operands], self.attrs.copy(), [*self.called]
        copy = Instruction(self.name, self.opcode, self.shape, *own, self.metadata)
        copy.marks, copy.unknown, copy.kept = self.marks, self.unknown, self.kept
        copy.frontend_attributes = self.frontend_attributes.copy()
        return copy

    def mark(self, **marks: Any) -> None:
        """Sets some of the marks."""
        self.marks = self.marks._replace(**marks)

    @property
    def literal(self) -> Literal | None:
        """The elements of a constant; None for anything else."""
        return self.attrs["literal"] if self.opcode == "constant" else None

    @property
    def elements(self) -> list[Instruction]:
        """Returns the elements of the tuple that this instruction makes; an empty list if its opcode is another one."""
        return self.operands if self.opcode == "tuple" else []

    @property
    def number(self) -> Any:
        """The value of a scalar constant; None of any other instruction."""
        literal = self.literal
        return literal.splat_value() if literal is not None and self.shape.is_array and not self.shape.rank else None

    @property
    def where(self) -> str:
        """A phrase for error messages: the instruction, and the user's op_name and source line where known."""
        text = f"{self.opcode} '{self.name}'"
        meta = self.metadata
        if meta and meta.op_name:
            text += f" (op_name {meta.op_name!r}"
            text += f", {meta.source_file}:{meta.source_line})" if meta.source_file else ")"
        return text


class Computation:
    """A list of instructions, operands before users, with one root."""

    __slots__ = ("name", "instructions", "root", "is_fusion_computation", "execution_thread", "unknown")

    def __init__(self, name: str, instructions: list[Instruction], root: Instruction | None = None):
        self.name = name
        self.instructions = instructions
        self.root = root if root is not None else instructions[-1]
        self.is_fusion_computation = False
        self.execution_thread = ""
        self.unknown = b""

    def __repr__(self) -> str:
        return f"<Computation {self.name}: {counted(len(self.instructions), 'instruction')}>"

    @property
    def parameters(self) -> list[Instruction]:
        """The parameters in the order of their numbers."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: i.attrs["parameter_number"])

    def uses(self) -> dict[Instruction, int]:
        """Counts how often each value is an operand, or the root."""
        found = {self.root: 1}
        for x in self.instructions:
            for o in x.operands:
                found[o] = found.get(o, 0) + 1
        return found


def needed(roots: Iterable[Instruction]) -> set[Instruction]:
    """Instructions and all that they are made from, in their computation."""
    found: set[Instruction] = set()
    pending = [*roots]
    while pending:
        x = pending.pop()
        if x not in found:
            found.add(x)
            pending += x.operands
    return found


def callees(instructions: Iterable[Instruction]) -> list[Computation]:
    """Every computation that instructions call, themselves or in what they call, callees before callers."""
    found: dict[Computation, None] = {}
    pending = [(c, False) for x in instructions for c in x.called][::-1]
    while pending:
        computation, done = pending.pop()
        if done:
            found[computation] = None
        elif computation not in found:
            pending.append((computation, True))
            pending += [(c, False) for x in computation.instructions for c in x.called][::-1]
    return list(found)


class Module:
    """An HLO module. `computations` lists callees before callers; `entry` is one of them."""

    def __init__(self, name: str, computations: list[Computation], entry: Computation):
        self.name = name
        """The name of the module; names of files and of artifacts come from it."""
        self.computations = computations
        """All its computations, callees before callers."""
        self.entry = entry
        """The computation that a run carries out."""
        self.parameter_shapes: list[Shape] | None = None
        """Shapes with the layouts that callers use (host_program_shape); None, or none of them: those of the entry's
        parameters."""
        self.result_shape: Shape | None = None
        """The shape of the result with the layout that callers use; None: that of the entry's root."""
        self.frontend_attributes: dict[str, str] = {}
        """Texts by name that a front end left, as the names of parameters and results."""
        self.input_output_alias: list[tuple[tuple[int, ...], int, tuple[int, ...], str]] = []
        """(output index, parameter number, parameter index, "may-alias" or "must-alias")."""
        self.buffer_donor: list[tuple[int, tuple[int, ...]]] = []
        """(parameter number, parameter index) of arguments whose memory any result may take."""
        self.replica_count = 1
        """The number of replicas."""
        self.num_partitions = 1
        """The number of partitions of each replica."""
        self.propagate_to_parameters: tuple[bool, ...] = ()
        """For which parameters a partitioner may choose the sharding; only HLO text has this."""
        self.propagate_to_output: tuple[bool, ...] = ()
        """The same for the leaves of the result."""
        self.is_scheduled = False
        """True if the order of instructions in every computation is a schedule to keep."""
        self.unknown = b""
        """Wire bytes of the fields this version does not know, written back as they were."""
        self.kept: Kept = {}
        """Values of messages that hold fields this version does not know, written back while they stay what they
        are."""
        self.callbacks: dict[str, Callable[..., Any]] = {}
        """The Python functions that the program calls, by the names that hosts have for them; no file holds them."""
        self.trees: Any = None
        """The trees of arguments and results as JAX has them (`jax.structure.Trees`); no file holds them."""

    def __repr__(self) -> str:
        return f"<Module {self.name}: {counted(len(self.computations), 'computation')}>"

    @staticmethod
    def from_proto(data: bytes | bytearray | memoryview) -> Module:
        """Read a serialized HloModuleProto, or an HloProto or snapshot that holds one. Raises ParseError."""
        from .proto.module import from_proto

        return from_proto(data)

    @staticmethod
    def from_text(text: str) -> Module:
        """Read HLO text. Raises ParseError, which shows the place of what is wrong."""
        from .text.parser import from_text

        return from_text(text)

    @staticmethod
    def from_stablehlo(data: str | bytes | bytearray | memoryview, shapes: Any = None) -> Module:
        """Read StableHLO: MLIR bytecode, a portable artifact, or text. Raises ParseError and UnsupportedError.

        `shapes` gives the sizes of arguments that the program leaves open (`tensor<?x3xf32>`): a list of sizes for each
        argument in their order, or by name.
        """
        from .foreign import apply

        return apply("from_stablehlo", data, shapes)

    @staticmethod
    def from_exported(data: bytes | bytearray | memoryview, dims: Any = None) -> Module:
        """Read a file that `jax.export.Exported.serialize` wrote, with the names of its inputs and outputs.

        `dims` gives the sizes of symbolic dimensions, as in {"b": 8}, or ranges of them, as in {"b": range(1, 129)}.
        Raises ParseError and UnsupportedError, and ArgumentError for `dims`.
        """
        from .foreign import apply

        return apply("from_exported", data, dims)

    @staticmethod
    def from_bytes(data: str | bytes | bytearray | memoryview) -> Module:
        """Read a module in any format, told by its content: HLO (proto or text), StableHLO, jax.export. Raises
        XlaWasmError."""
        from .proto.container import read_module

        return read_module(data)

    def to_proto(self) -> bytes:
        """The serialized HloModuleProto."""
        from .proto.module import to_proto

        return to_proto(self)

    def to_text(self, *, large_constants: bool = True) -> str:
        """HLO text. Without `large_constants`, those of more than ten elements are shown as {...}."""
        from .text.printer import to_text

        return to_text(self, large_constants=large_constants)

    def to_stablehlo(self) -> str:
        """StableHLO text, in MLIR's generic form. Raises UnsupportedError, which names the instruction, for what
        StableHLO cannot say."""
        from .foreign import apply

        text: str = apply("to_stablehlo", self)
        return text

    def explain_nonfinite(self, *arrays: Any, target: str = "simd128", nan: bool = True, infinity: bool = True) -> str:
        """Says where the first NaN of the results on these flattened arguments begins, or else the first infinity: in
        which instruction of which line, and where the infinity does that a NaN is made of. "" if there is none, or only
        infinities of constants and of arguments.

        Each instruction is compiled for `target` and run once more. Raises UnsupportedError for dynamic arguments.
        """
        from .foreign import apply

        text: str = apply("explain_nonfinite", self, arrays, target, nan, infinity)
        return text

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for computation in self.computations:
            yield from computation.instructions

    def having(self, *opcodes: str) -> list[Instruction]:
        """The instructions with one of these opcodes."""
        return [x for c in self.computations for x in c.instructions if x.opcode in opcodes]

    def shapes(self) -> Collection[Shape]:
        """The shapes of all instructions, those that many share once: few of so many instructions."""
        return {id(x.shape): x.shape for c in self.computations for x in c.instructions}.values()


__all__ = ["Computation", "Instruction", "Layout", "Module", "Shape", "callees", "needed"]
