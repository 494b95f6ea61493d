"""The attributes of StableHLO, CHLO and MHLO in MLIR text, and VHLO's, which become the builtin ones that they wrap.

A structure (`#stablehlo.dot<...>`) is read as its fields under VHLO's names; `plain.py` puts them among the attributes
of its operation. What other dialects have is kept as text.
"""

from __future__ import annotations

import re
from typing import Any

from .lexer import ALIAS, DIALECT, KEY, NUMBER, STRING_BODY, WORD, terminal
from .plain import Fields
from .text_dense import Constants
from .tree import Accuracy, Alias, Attribute, MeshGroups, Opaque, TypeOf

ENUMS = frozenset(
    "accuracy api_version comparison_direction comparison_type custom_call_api_version fft_type precision "
    "result_accuracy_mode rng_algorithm rng_distribution transpose".split()
)
"""Attributes that are one word."""
DOT = tuple(f"{side}_{what}_dimensions" for what in ("batching", "contracting") for side in ("lhs", "rhs"))
STRUCTURES = {
    "dot": DOT,
    "gather": tuple(
        "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map "
        "index_vector_dim".split()
    ),
    "scatter": tuple(
        "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
        "scatter_dims_to_operand_dims index_vector_dim".split()
    ),
    "channel_handle": ("handle", "type"),
    "dot_algorithm": tuple(
        "lhs_precision_type rhs_precision_type accumulation_type lhs_component_count rhs_component_count "
        "num_primitive_operations allow_imprecise_accumulation".split()
    ),
    "output_operand_alias": Alias._fields,
    "result_accuracy": Accuracy._fields,
    "ragged_dot": (*DOT, "lhs_ragged_dimensions", "rhs_group_dimensions"),
    "conv": tuple(
        "input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
        "kernel_output_feature_dimension kernel_spatial_dimensions output_batch_dimension output_feature_dimension "
        "output_spatial_dimensions".split()
    ),
}
"""Structure -> its fields. A list that is left out is empty, a number 0."""
CONVOLUTION = (
    ("b", "input_batch", "f", "input_feature", "input"),
    ("i", "kernel_input_feature", "o", "kernel_output_feature", "kernel"),
) + (("b", "output_batch", "f", "output_feature", "output"),)
"""For the input, the kernel and the output: a letter and its dimension, another letter and its dimension, whose spatial
dimensions."""
_WRAPPERS = frozenset("array bool dict float integer string tensor type".split())
"""VHLO's attributes that hold a builtin one."""
_OWN = ("stablehlo", "chlo", "mhlo", "vhlo")
_VERSION = re.compile(r"_v\d+$")
_LABELS = terminal(r"\[([^\[\]]*+)\]")
_CAPITAL = re.compile("[A-Z]")
_SCALARS = ("_dim", "_dimension", "_count")
"""Endings of the names of fields that are one number."""
_AXIS = re.compile(rf"#stablehlo\.axis_ref<name = ({STRING_BODY})(?:, sub_axis_info = (\(\d+\)\d+))?>")
_REAL = re.compile(r"\d+\.")


def _kinds(name: str) -> tuple[type, ...]:
    """Returns the types that a field of a structure may hold."""
    if name in ("atol", "rtol"):
        return (float, int)
    if name == "mode":
        return (str,)
    if name == "allow_imprecise_accumulation":
        return (bool,)
    if name.endswith("_type"):
        return (TypeOf,)
    scalar = name in ("handle", "type", "operand_index", "ulps", "num_primitive_operations") or name.endswith(_SCALARS)
    return (int,) if scalar else (tuple,)


class DialectAttributes(Constants):
    """A place in a text where attributes of a dialect may stand. The class below reads those of any kind."""

    __slots__ = ()

    def attribute(self) -> Attribute:
        raise NotImplementedError

    def of_dialect(self) -> Attribute:
        """`#alias`, `#dialect.kind<...>` or `#dialect<kind ...>`."""
        found = self.match(ALIAS)
        if found:
            return self.aliased("#" + found[1], self.attribute)
        begin = self.skip()
        name = self.need(DIALECT, "an attribute")
        dialect, _, kind = name.partition(".")
        if dialect in _OWN:
            after = self.pos
            if not kind and self.take("<"):
                kind = self.need(WORD, "the kind of the attribute")
            elif kind:
                self.take("<")
            value = self._understood(_VERSION.sub("", kind), begin)
            if value is not None:
                self.expect(">")
                return value
            self.pos = after
        if self.text.startswith("<", self.pos):
            self.balanced()
        return Opaque(self.text[begin : self.pos])

    def _understood(self, kind: str, begin: int) -> Attribute | None:
        """Reads what stands between the angle brackets; None if this kind is not known."""
        if kind in ENUMS:
            return self.need(WORD, "a word")
        if kind in _WRAPPERS:
            return self.attribute()
        if kind == "conv" and not self.word("raw"):
            return self.convolution_dimensions()
        if kind in STRUCTURES:
            return self.structure(kind)
        if kind == "replica_group_mesh_axes":
            self.pos = begin
            self.need(DIALECT, "an attribute")
            inner = self.balanced()[1:-1].strip().removeprefix(kind).strip().removeprefix("<").removesuffix(">")
            self.pos -= 1
            return MeshGroups(f"#stablehlo.replica_group_mesh_axes<{_AXIS.sub(_axis_text, inner)}>")
        return None

    def structure(self, kind: str) -> Any:
        """The fields of a structure, `name = value` each, up to the bracket that closes it."""
        names = STRUCTURES[kind]
        found: dict[str, Any] = {}
        while not self.sees(">"):
            name = _CAPITAL.sub(r"_\g<0>", self.need(KEY, "a field")).lower()  # VHLO has some names without underscores
            if name not in names or name in found:
                self.error(
                    f"{kind} has no field {name!r}" if name not in names else f"the field {name!r} stands twice",
                    self.pos - len(name),
                )
            self.expect("=")
            begin = self.skip()
            found[name] = self._field()
            if type(found[name]) not in _kinds(name):
                self.error(f"the field {name!r} holds something else", begin)
            if not self.take(","):
                break
        if kind == "output_operand_alias":
            return Alias(
                found.get("output_tuple_indices", ()),
                found.get("operand_index", 0),
                found.get("operand_tuple_indices", ()),
            )
        if kind == "result_accuracy":
            atol, rtol = (float(found.get(name, 0)) for name in ("atol", "rtol"))
            return Accuracy(atol, rtol, found.get("ulps", 0), found.get("mode", "DEFAULT"))
        if kind == "dot_algorithm":
            return Fields(found)
        if kind == "channel_handle":
            return Fields(channel_id=found.get("handle", 0), channel_type=found.get("type", 0))
        return Fields({name: found.get(name, 0 if name.endswith(_SCALARS) else ()) for name in names})

    def _field(self) -> Any:
        """The value of a field: integers, a number, a truth value, a type or an attribute."""
        if self.sees("["):
            return self.integers()
        if self.sees("#"):
            return self.attribute()
        found = WORD.match(self.text, self.pos)
        if found:
            word = self.attribute()
            return (
                word
                if isinstance(word, (bool, TypeOf))
                else self.fail("a number, a truth value or a type", found.start(1))
            )
        begin = self.skip()
        value = self.need(NUMBER, "a value")
        number: Any = float(value) if _REAL.match(value.lstrip("-")) else None
        if number is None:
            self.pos = begin
            number = self.integer()
        if self.take(":"):
            self.type()
        return number

    def integers(self) -> tuple[int, ...]:
        """`[1, 2]`."""
        self.expect("[")
        if self.take("]"):
            return ()
        found = [self.integer()]
        while self.take(","):
            found.append(self.integer())
        self.expect("]")
        return tuple(found)

    def convolution_dimensions(self) -> Fields:
        """`[b, 0, f]x[0, i, o]->[b, 0, f]`."""
        found = Fields()
        for mark, (first, first_name, second, second_name, name) in zip(("", "x", "->"), CONVOLUTION):
            if mark:
                self.expect(mark)
            begin = self.skip()
            labels = [label.strip() for label in self.need(_LABELS, "labels of dimensions").split(",")]
            places = {label: place for place, label in enumerate(labels)}
            spatial = [places.get(str(i)) for i in range(len(labels) - 2)]
            if len(places) != len(labels) or first not in places or second not in places or None in spatial:
                self.error(f"labels are '{first}', '{second}' and the numbers from 0 on, each once", begin)
            found[f"{first_name}_dimension"], found[f"{second_name}_dimension"] = places[first], places[second]
            found[f"{name}_spatial_dimensions"] = tuple(spatial)
        return found


def _axis_text(found: re.Match[str]) -> str:
    """An axis of a mesh, or a part of it, as Shardy writes it."""
    return found[1] + (f":{found[2]}" if found[2] else "")
