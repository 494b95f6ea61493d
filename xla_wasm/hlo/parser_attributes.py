"""Attributes of instructions in HLO text: how each kind of the op records is spelled."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .attr_kinds import ALGORITHMS, PRECISIONS, TRANSPOSES, WORDS
from .attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    IotaGroups,
    MeshGroups,
    PaddingDimension,
    PrecisionConfig,
    RaggedDotDimensionNumbers,
    ReplicaGroups,
    ResultAccuracy,
    ScatterDimensionNumbers,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from .lexer import DIM_LABELS, KEY, NAME, NUMBER, PAD, SIZES, Lexer, terminal
from .op import REQUIRED, records
from .parser_literals import literal
from .parser_messages import axis_refs, integers, iota, mesh, sharding, string
from .printer import NOT_IN_TEXT
from .schema import MESSAGES
from .wire import encode

if TYPE_CHECKING:
    from .parser_shapes import Shapes

Read = Callable[[Lexer, "Shapes"], Any]
_SPARSITY = terminal(r"(\d++)x(\d++)(?![\w.])")


class Part(NamedTuple):
    """One attribute as the text has it: whether it must be there, and how its value is read."""

    required: bool
    read: Read


class Form(NamedTuple):
    """An attribute of a record as the text has it: one or several attributes, and what they make together."""

    parts: dict[str, Part]
    build: Callable[[dict[str, Any]], Any]


def _integer(lexer: Lexer, _: Shapes) -> int:
    return lexer.integer()


def _number(lexer: Lexer, _: Shapes) -> float:
    return float(lexer.need(NUMBER, "a number").partition("(")[0])


def _single(lexer: Lexer, shapes: Shapes) -> Any:
    """A number, rounded to f32, which it must fit."""
    begin = lexer.skip()
    value = _number(lexer, shapes)
    if abs(value) > 3.4028234663852886e38:
        lexer.error("the number does not fit f32", begin)
    return struct.unpack("<f", struct.pack("<f", value))[0]


def boolean(lexer: Lexer, _: Shapes | None = None) -> bool:
    """true or false."""
    if lexer.word("true"):
        return True
    return False if lexer.word("false") else lexer.fail("true or false")


def _booleans(lexer: Lexer, _: Shapes) -> tuple[bool, ...]:
    return tuple(listed(lexer, boolean))


def _text(lexer: Lexer, _: Shapes) -> str:
    return string(lexer)


def _bytes(lexer: Lexer, _: Shapes) -> bytes:
    return lexer.string()


def _bare(lexer: Lexer, _: Shapes) -> str:
    return lexer.need(NAME, "a word")


def _ints(lexer: Lexer, _: Shapes) -> tuple[int, ...]:
    return tuple(integers(lexer))


def listed(lexer: Lexer, item: Callable[[Lexer], Any], opening: str = "{", closing: str = "}") -> list[Any]:
    """Items between brackets, with commas between them."""
    lexer.expect(opening)
    out: list[Any] = []
    if lexer.take(closing):
        return out
    while True:
        out.append(item(lexer))
        if not lexer.take(","):
            lexer.expect(closing)
            return out


def _flattened(lexer: Lexer, _: Shapes) -> tuple[int, ...]:
    """{{2,3}} or {2,3}."""
    lists = listed(lexer, lambda at: integers(at) if at.sees("{") else [at.integer()])
    return tuple(value for items in lists for value in items)


def _word(words: tuple[str, ...] | list[str], fold: bool = False) -> Read:
    def read(lexer: Lexer, _: Shapes) -> str:
        begin = lexer.skip()
        found = lexer.match(NAME)
        word = found[1].lower() if found and fold else found[1] if found else ""
        return word if word in words else lexer.fail(" or ".join(words) if len(words) < 8 else f"one of {', '.join(words)}", begin)

    return read


def _slices(lexer: Lexer, _: Shapes) -> tuple[SliceDimension, ...]:
    def one(lexer: Lexer) -> SliceDimension:
        lexer.expect("[")
        start = lexer.integer()
        lexer.expect(":")
        limit = lexer.integer()
        stride = lexer.integer() if lexer.take(":") else 1
        lexer.expect("]")
        return SliceDimension(start, limit, stride)

    return tuple(listed(lexer, one))


def _pads(lexer: Lexer) -> list[list[int]]:
    """1_2x3_4: the numbers of each dimension."""
    return [[lexer.number_in(digits) for digits in part.split("_")] for part in lexer.need(PAD, "padding, such as 0_0x1_1,").split("x")]


def _padding(lexer: Lexer, _: Shapes) -> tuple[PaddingDimension, ...]:
    return tuple(PaddingDimension(*numbers) for numbers in _pads(lexer))


def _window(lexer: Lexer, _: Shapes) -> Window:
    begin = lexer.skip()
    found: dict[str, list[Any]] = {}
    lexer.expect("{")
    while not lexer.take("}"):
        here = lexer.skip()
        key = lexer.need(KEY, "an attribute of the window or '}'")
        if key in found:
            lexer.error(f"{key} is given twice", here)
        if key == "pad":
            found[key] = _pads(lexer)
            if any(len(numbers) != 2 for numbers in found[key]):
                lexer.error("the padding of a window is low_high for each dimension", here)
        elif key in ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            found[key] = [lexer.number_in(digits) for digits in lexer.need(SIZES, "sizes, such as 1x2,").split("x")]
        else:
            lexer.error(f"a window has no attribute {key}", here)
        lexer.take(",")
    if not found:
        return Window()
    if "size" not in found or any(len(values) != len(found["size"]) for values in found.values()):
        lexer.error("a window gives sizes, and as many of everything else as sizes", begin)
    rank = len(found["size"])
    ones, pads = [1] * rank, found.get("pad", [[0, 0]] * rank)
    rows = zip(
        found["size"], *(found.get(key, ones) for key in ("stride", "rhs_dilate", "lhs_dilate")), found.get("rhs_reversal", [0] * rank)
    )
    return Window(
        tuple(
            WindowDimension(size, stride, low, high, window, base, bool(flip))
            for (size, stride, window, base, flip), (low, high) in zip(rows, pads)
        )
    )


def _labels(lexer: Lexer, _: Shapes) -> ConvolutionDimensionNumbers:
    text = lexer.need(DIM_LABELS, "dimension labels, such as b01f_01io->b01f,")
    begin = lexer.pos - len(text)
    lhs, _arrow, rest = text.partition("_")
    rhs, _arrow, out = rest.partition("->")
    rank = len(lhs) - 2
    spatial = [str(d) for d in range(rank)]

    def places(labels: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
        if sorted(labels.replace("?", "")) != sorted([first, second, *spatial][: len(labels)]) or rank > 9:
            if "?" not in labels:
                lexer.error(f"{labels} does not name {first}, {second} and the spatial dimensions {' '.join(spatial)}, each once", begin)
        return labels.find(first), labels.find(second), tuple(labels.index(label) for label in spatial if label in labels)

    (ib, if_, is_), (ki, ko, ks), (ob, of, os) = places(lhs, "b", "f"), places(rhs, "i", "o"), places(out, "b", "f")
    return ConvolutionDimensionNumbers(ib, if_, is_, ki, ko, ks, ob, of, os)


def _pairs(lexer: Lexer, _: Shapes) -> tuple[tuple[int, ...], ...]:
    begin = lexer.skip()
    pairs = tuple(tuple(items) for items in listed(lexer, integers))
    if any(len(pair) != 2 for pair in pairs):
        lexer.error("each pair has a source and a target", begin)
    return pairs


def _groups(lexer: Lexer, _: Shapes) -> ReplicaGroups:
    begin = lexer.skip()
    if lexer.sees("mesh["):
        axes, devices, dims, perm = mesh(lexer)
        refs, _closed = axis_refs(lexer, axes)
        return ReplicaGroups(mesh=MeshGroups(tuple(axes), tuple(refs), tuple(devices), tuple(dims), tuple(perm)))
    if not lexer.sees("["):
        return ReplicaGroups(tuple(tuple(items) for items in listed(lexer, integers)))
    sizes = integers(lexer, "[", "]")
    lexer.expect("<=")
    dims, perm = iota(lexer)
    total = 1
    for size in dims:
        total *= size
    if len(sizes) != 2 or min(sizes) < 1 or sizes[0] * sizes[1] != total:
        lexer.error(f"groups are [number, size], with {total} devices in all", begin)
    return ReplicaGroups(iota=IotaGroups(sizes[0], sizes[1], tuple(dims), tuple(perm)))


def aliasing(lexer: Lexer, _: Shapes | None = None) -> tuple[Any, ...]:
    """{{out}: (operand, {index}), ...}; the index may be missing."""

    def one(lexer: Lexer) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
        output = tuple(integers(lexer))
        lexer.expect(":")
        lexer.expect("(")
        operand = lexer.integer()
        index = tuple(integers(lexer)) if lexer.take(",") else ()
        lexer.expect(")")
        return output, operand, index

    return tuple(listed(lexer, one))


def _shape_list(lexer: Lexer, shapes: Shapes) -> tuple[Any, ...]:
    return tuple(listed(lexer, lambda _: shapes.shape()))


def _accuracy(lexer: Lexer, shapes: Shapes) -> ResultAccuracy | None:
    begin = lexer.skip()
    mode = _word(("default", "highest"), fold=True)
    lexer.expect("{")
    key = lexer.need(KEY, "mode= or tolerance=")
    if key == "mode":
        word = mode(lexer, shapes)
        lexer.expect("}")
        return ResultAccuracy(word) if word != "default" else None
    if key != "tolerance":
        lexer.error(f"result_accuracy has no attribute {key}", begin)
    lexer.expect("{")
    found: dict[str, Any] = {}
    while not lexer.take("}"):
        here = lexer.skip()
        key = lexer.need(KEY, "atol=, rtol=, ulps= or '}'")
        if key not in ("atol", "rtol", "ulps"):
            lexer.error(f"a tolerance has no attribute {key}", here)
        found[key] = lexer.integer() if key == "ulps" else _number(lexer, shapes)
        lexer.take(",")
    lexer.expect("}")
    return ResultAccuracy("", found.get("atol", 0.0), found.get("rtol", 0.0), found.get("ulps", 0))


def _domain(lexer: Lexer, _: Shapes) -> tuple[bytes, bytes]:
    lexer.expect("{")
    found: dict[str, bytes] = {}
    while not lexer.take("}"):
        here = lexer.skip()
        key = lexer.need(KEY, "kind=, entry=, exit= or '}'")
        if key == "kind":
            if lexer.string() != b"sharding":
                lexer.error('the kind of a domain is "sharding"', here)
        elif key in ("entry", "exit"):
            found[key] = sharding(lexer)
        else:
            lexer.error(f"a domain has no attribute {key}", here)
        lexer.take(",")
    return found.get("entry", b""), found.get("exit", b"")


def _sparsity(lexer: Lexer, _: Shapes) -> bytes:
    """{lhs={sparsity=2x4 dimension=1 stride=1} rhs={...}} as a SparsityConfig."""
    sides: dict[str, bytes] = {}
    lexer.expect("{")
    while not lexer.take("}"):
        here = lexer.skip()
        side = lexer.need(KEY, "lhs=, rhs= or '}'")
        if side not in ("lhs", "rhs"):
            lexer.error(f"sparsity_config has no attribute {side}", here)
        fields: dict[str, Any] = {}
        lexer.expect("{")
        while not lexer.take("}"):
            here = lexer.skip()
            key = lexer.need(KEY, "sparsity=, dimension=, stride= or '}'")
            if key == "sparsity":
                found = lexer.match(_SPARSITY) or lexer.fail("a ratio, such as 2x4,")
                fields["num_non_zero"], fields["block_size"] = lexer.number_in(found[1]), lexer.number_in(found[2])
            elif key in ("dimension", "stride"):
                fields[key] = lexer.integer()
            else:
                lexer.error(f"a sparsity has no attribute {key}", here)
            lexer.take(",")
        sides[side] = encode(MESSAGES["TensorSparsityConfig"], fields)
        lexer.take(",")
    return encode(MESSAGES["SparsityConfig"], sides)


def _literal(lexer: Lexer, shapes: Shapes) -> Any:
    if not lexer.sees("("):
        return literal(lexer, shapes.shape())
    return _literal_tuple(lexer, shapes, 0)


def _literal_tuple(lexer: Lexer, shapes: Shapes, depth: int) -> Any:
    """A tuple as it is printed, every element with its shape: ( s32[] 1, f32[2] {1, 2} ); or a tuple shape before it all."""
    from .literal import Literal
    from .shape import Shape

    begin = lexer.pos
    whole = shapes.optional() if _leads_to_literal(lexer, shapes) else None
    if whole is not None:
        return literal(lexer, whole)
    lexer.pos = begin
    lexer.expect("(")
    elements: list[Any] = []
    while not lexer.take(")"):
        if elements:
            lexer.expect(",")
        if lexer.sees("(") and depth < 64:
            elements.append(_literal_tuple(lexer, shapes, depth + 1))
        else:
            elements.append(literal(lexer, shapes.shape(), False))
    return Literal(Shape.tuple([e.shape for e in elements]), b"", tuple(elements))


def _leads_to_literal(lexer: Lexer, shapes: Shapes) -> bool:
    """Whether a tuple shape stands here, followed by its literal."""
    from ..errors import ParseError

    begin = lexer.pos
    try:
        shapes.shape()
        return lexer.sees("(")
    except ParseError:
        return False
    finally:
        lexer.pos = begin


def _dot_numbers(found: dict[str, Any]) -> DotDimensionNumbers:
    keys = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")
    return DotDimensionNumbers(*(found.get(key, ()) for key in keys))


def _numbers(cls: Any) -> Form:
    """Gather and scatter: every field under its own name."""
    parts = {}
    for field in cls.__dataclass_fields__:
        parts[field] = Part(not field.endswith("batching_dims"), _integer if field == "index_vector_dim" else _ints)
    return Form(parts, lambda found: cls(**found))


_OPTIONAL_INTS = Part(False, _ints)
_DOT = dict.fromkeys(("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims"), _OPTIONAL_INTS)

_READERS: dict[str, Read] = {
    **dict.fromkeys(("int", "count", "first_int", "optional_first_int", "optional_int"), _integer),
    "channel_id": lambda lexer, _: value if (value := lexer.integer()) > 0 else None,
    "bool": boolean,
    "tri_state": boolean,
    "float": _single,
    "str": _text,
    "bytes": _bytes,
    "raw": _sparsity,
    "ints": _ints,
    "bools": _booleans,
    "slices": _slices,
    "padding": _padding,
    "shapes": _shape_list,
    "shape": lambda _, shapes: shapes.shape(),
    "source_target_pairs": _pairs,
    "replica_groups": _groups,
    "output_operand_aliasing": aliasing,
    "window": _window,
    "convolution_dimension_numbers": _labels,
    "result_accuracy": _accuracy,
    "literal": _literal,
    "domain": _domain,
    "cholesky_options": boolean,
    "comparison_direction": _word(("EQ", "NE", "GE", "GT", "LE", "LT")),
    "comparison_type": _word(("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")),
    **{kind: _word(words) for kind, words in WORDS.items()},
    "custom_call_api_version": _word(WORDS["custom_call_api_version"][1:]),
}

_FORMS: dict[str, Form] = {
    "dot_dimension_numbers": Form(_DOT, _dot_numbers),
    "ragged_dot_dimension_numbers": Form(
        {**_DOT, "lhs_ragged_dims": _OPTIONAL_INTS, "rhs_group_dims": _OPTIONAL_INTS},
        lambda found: RaggedDotDimensionNumbers(_dot_numbers(found), found.get("lhs_ragged_dims", ()), found.get("rhs_group_dims", ())),
    ),
    "gather_dimension_numbers": _numbers(GatherDimensionNumbers),
    "scatter_dimension_numbers": _numbers(ScatterDimensionNumbers),
    "precision_config": Form(
        {
            "operand_precision": Part(
                False, lambda lexer, shapes: tuple(listed(lexer, lambda at: _word(PRECISIONS, fold=True)(at, shapes)))
            ),
            "algorithm": Part(False, _word(ALGORITHMS, fold=True)),
        },
        lambda found: PrecisionConfig(found.get("operand_precision", ()), found.get("algorithm", "unset")),
    ),
    "triangular_solve_options": Form(
        {
            **dict.fromkeys(("left_side", "lower", "unit_diagonal"), Part(False, boolean)),
            "transpose_a": Part(False, _word(TRANSPOSES)),
        },
        lambda found: TriangularSolveOptions(**{"transpose_a": TRANSPOSES[0], **found}),
    ),
}
_ONE_DIMENSION = frozenset("concatenate sort all-gather all-gather-start reduce-scatter get-dimension-size set-dimension-size scan".split())


class Attribute(NamedTuple):
    """An attribute of an opcode's record, ready to read from text."""

    name: str
    keys: tuple[str, ...]
    build: Callable[[dict[str, Any]], Any] | None
    default: Any


class Spelling(NamedTuple):
    """All that the text of an opcode may have: the parts by key, the attributes that they make, keys of called computations."""

    parts: dict[str, Part]
    attributes: tuple[Attribute, ...]
    called: tuple[str, ...]
    one_dimension: bool


@cache
def spelling(opcode: str) -> Spelling | None:
    """How an opcode's attributes are spelled; None for an unknown opcode."""
    op = records().get(opcode)
    if op is None:
        return None
    parts: dict[str, Part] = {}
    attributes = []
    for attr in op.attrs:
        hidden = (opcode, attr.name) in NOT_IN_TEXT
        form = _FORMS.get(attr.kind)
        if form is not None:
            parts.update(form.parts)
            attributes.append(Attribute(attr.name, tuple(form.parts), form.build, attr.default))
            continue
        read = _READERS[attr.kind]
        if attr.name == "kind":
            read = _bare
        elif attr.name == "slice_sizes" and opcode.startswith("collective-permute"):
            read = _flattened
        if not hidden:
            parts[attr.name] = Part(attr.default is REQUIRED, read)
        attributes.append(Attribute(attr.name, (attr.name,), None, attr.default))
    called = op.called
    if opcode == "custom-call":
        called = ("to_apply?", "called_computations*")
    return Spelling(parts, tuple(attributes), called, opcode in _ONE_DIMENSION)
