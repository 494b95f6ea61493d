"""The tree that every reader of MLIR gives: operations with operands, attributes and regions.

Operations and attributes have the names of StableHLO, and attributes that StableHLO gathers in structures (dimension
numbers, a channel handle) stand flat, each under the name that VHLO has for it. What VHLO spells out to say "absent" is
absent. So one tree stands for a program, whether it came as VHLO, as StableHLO bytecode or as text.

    file                                                   tree
    "vhlo.dot_general_v2", #vhlo.array_v1<...>             Op("stablehlo.dot_general"), lhs_contracting_dimensions: (1,)
    #stablehlo.dot<lhs_contracting_dimensions = [1], ..>   the same
    #stablehlo<comparison_direction LT>                    comparison_direction: "LT"
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import counted
from ..hlo.proto.wire import Buffer

DYNAMIC = -(2**63)
"""The size of a dimension that is written `?`, and a bound that is absent."""


class Tensor(NamedTuple):
    """`tensor<3x?xf32, #stablehlo.bounds<?, 5>>`. `sizes` is None where the rank is not known; `bounds` is empty where
    there are none."""

    sizes: tuple[int, ...] | None
    element: Type
    bounds: tuple[int, ...] = ()


class Complex(NamedTuple):
    """`complex<f32>`."""

    element: str


class Quantized(NamedTuple):
    """`!quant.uniform<i8:f32:0, {0.1:-3, 0.2:0}>`. `axis` is None for one scale of the whole tensor."""

    storage: str
    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    minimum: int
    maximum: int
    axis: int | None = None


class Tuple(NamedTuple):
    """`tuple<T, T>`."""

    types: tuple[Type, ...]


class Function(NamedTuple):
    """`(T, T) -> (T, T)`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


class Memref(NamedTuple):
    """`memref<3xf32>`, a buffer."""

    sizes: tuple[int, ...]
    element: Type


class Future(NamedTuple):
    """`!stablehlo.future<T, T>`, what an asynchronous operation gives."""

    types: tuple[Type, ...]


class Opaque(NamedTuple):
    """A type or an attribute of another dialect, as its text."""

    text: str


Type = str | Tensor | Complex | Quantized | Tuple | Function | Memref | Future | Opaque
"""Element types are their names in MLIR's text ("f32", "i1", "ui8", "f8E4M3FN", "index"); further names are "token" and
"none"."""


class Number(NamedTuple):
    """`1 : i64` or `1.0 : f32`: an attribute. `true` and `false` are plain `bool`."""

    value: int | float
    type: Type


class Dense(NamedTuple):
    """`dense<...> : T`: row-major little-endian elements, or the one element of a splat.

    `i1` takes a byte (0 or 1) for each element, as do types of less than 8 bits: readers unpack what a file packs. A
    splat has the bytes of one element where the type has more.
    """

    type: Tensor
    data: Buffer
    is_splat: bool = False


class Strings(NamedTuple):
    """`dense<["a", "b"]>`: a tensor of strings."""

    type: Tensor
    values: tuple[str, ...]


class Elements(NamedTuple):
    """`array<i64: 1, 2>`."""

    element: str
    values: tuple[int | float | bool, ...]


class Symbol(NamedTuple):
    """`@name`, `@name::@inner`."""

    name: str


class Alias(NamedTuple):
    """`#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>`."""

    output_tuple_indices: tuple[int, ...]
    operand_index: int
    operand_tuple_indices: tuple[int, ...]


class Accuracy(NamedTuple):
    """`#stablehlo.result_accuracy<atol = ..., rtol = ..., ulps = ..., mode =
    #stablehlo.result_accuracy_mode<TOLERANCE>>`."""

    atol: float
    rtol: float
    ulps: int
    mode: str


class MeshGroups(NamedTuple):
    """`#stablehlo.replica_group_mesh_axes<mesh = ..., axes = [...]>`: groups of devices by the axes of a mesh, as
    text."""

    text: str


class Location(NamedTuple):
    """The origin of an operation: the name that JAX gives it ("jit(f)/sin"), and the user's line."""

    name: str = ""
    file: str = ""
    line: int = 0


class _Unit:
    """The type of UNIT."""

    def __repr__(self) -> str:
        return "UNIT"


UNIT = _Unit()
"""An attribute that says all by being there."""

Attribute = Any
"""bool, str (strings, and words of enumerations such as "LT"), tuple (arrays), dict[str, Attribute], a Type (wrapped in
`TypeOf`), UNIT, or one of the classes above."""


class TypeOf(NamedTuple):
    """A type as an attribute."""

    type: Type


class Value:
    """A result of an operation, or an argument of a block. `name` is what the text or a location calls it, perhaps
    nothing."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Block | None = None, name: str = ""):
        self.type, self.owner, self.name = type, owner, name


class Op:
    """An operation: `%0 = "stablehlo.add"(%a, %b) {attributes} : (T, T) -> T`."""

    __slots__ = ("attributes", "location", "name", "operands", "regions", "results")

    def __init__(
        self, name: str, operands: list[Value], attributes: dict[str, Attribute], location: Location | None = None
    ):
        self.name, self.operands, self.attributes, self.location = name, operands, attributes, location
        self.results: list[Value] = []
        self.regions: list[list[Block]] = []

    def __repr__(self) -> str:
        return f"<{self.name} of {counted(len(self.operands), 'operand')}>"


class Block:
    """Arguments, and operations that may use them. The last operation ends the block."""

    __slots__ = ("arguments", "ops")

    def __init__(self, arguments: list[Value] | None = None):
        self.arguments: list[Value] = arguments if arguments is not None else []
        self.ops: list[Op] = []
