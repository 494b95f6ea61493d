"""The record of calls to what XLA has no operation for."""

from __future__ import annotations

from ...hlo.attrs import PrecisionConfig
from ...hlo.op import REQUIRED, Attr, Op

OPS: tuple[Op, ...] = (
    Op(
        "custom-call",
        (0, None),
        None,
        (
            Attr("custom_call_target", "str", (28,), REQUIRED),
            Attr("window", "window", (15,)),
            Attr("dim_labels", "convolution_dimension_numbers", (16,)),
            Attr("feature_group_count", "count", (50,), 1),
            Attr("batch_group_count", "count", (58,), 1),
            Attr("precision_config", "precision_config", (51,), PrecisionConfig()),
            Attr("constrain_layout", "bool", (56,), False, text=False),  # operand_layout_constraints says it
            Attr("operand_layout_constraints", "shapes", (57,), ()),
            Attr("custom_call_has_side_effect", "bool", (65,), False),
            Attr("literal", "literal", (8,)),
            Attr("output_to_operand_aliasing", "output_operand_aliasing", (74,), ()),
            Attr("padding_type", "padding_type", (75,), "PADDING_INVALID"),
            Attr("schedule", "custom_call_schedule", (76,), "SCHEDULE_NONE"),
            Attr("api_version", "custom_call_api_version", (77,), "API_VERSION_ORIGINAL"),
        ),
        ("called_computations*",),
        complex=True,
        doc="A function known by name; the declared shape is taken as it is.",
    ),
)
