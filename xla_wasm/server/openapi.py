"""The description of the interface by the OpenAPI specification, from the model's signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..hlo.types import TYPES, limits
from ..host.leaf import Leaf
from . import formats, json_arrays
from .model import Model, signature

_ERRORS = {
    400: "The body cannot be parsed, or ends early.",
    406: "None of the types in the header Accept can be given.",
    408: "The body took too long to arrive.",
    413: "The body is larger than the inputs can need.",
    415: "The type of the body is not known.",
    422: "The body was parsed and does not fit: an input is missing or unknown, or has another shape, type or range.",
    429: "Too many requests at once; the header Retry-After says when to try again, in seconds.",
    500: "The model failed.",
    503: "The server is shutting down.",
}
_LARGEST_EXAMPLE = 64
"""Elements of an array in an example."""


def describe(model: Model) -> dict[str, Any]:
    """The document that `GET /openapi.json` gives."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": model.name,
            "version": __version__,
            "description": f"The compiled model {model.name}, served by xla_wasm.",
        },
        "paths": {
            "/": {"get": _get(model), "post": _post(model)},
            "/healthz": {"get": _text("Answers if the server runs.", "isHealthy", "It does.", "text/plain", "ok\n")},
            "/metrics": {
                "get": _text("Counts, in the text format of Prometheus.", "getMetrics", "The counts.", "text/plain")
            },
        },
        "components": {
            "schemas": {
                "Inputs": _record(model.inputs),
                "Results": _record(model.results),
                "Signature": _signature_schema(),
                "Error": _error_schema(),
            }
        },
    }


def array_schema(leaf: Leaf) -> dict[str, Any]:
    """JSON of an array: nested lists of the leaf's shape."""
    schema = _element_schema(leaf)
    for bound, least in zip(leaf.dimensions[::-1], leaf.least_dimensions[::-1]):
        schema = {"type": "array", "items": schema, "minItems": least, "maxItems": bound}
    return {**schema, "description": str(leaf)}


def _element_schema(leaf: Leaf) -> dict[str, Any]:
    kind = TYPES[leaf.element_type].kind
    if kind == "pred":
        return {"enum": [True, False, 1, 0]}
    if kind in ("signed", "unsigned"):
        low, high = limits(leaf.element_type)
        return {"type": "integer", "minimum": low, "maximum": high}
    number = {"oneOf": [{"type": "number"}, {"enum": list(json_arrays.SPECIAL)}]}
    return {"type": "array", "items": number, "minItems": 2, "maxItems": 2} if kind == "complex" else number


def _record(leaves: Sequence[Leaf]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {leaf.name: array_schema(leaf) for leaf in leaves},
        "required": [leaf.name for leaf in leaves],
        "additionalProperties": False,
    }


def _get(model: Model) -> dict[str, Any]:
    content = {
        formats.JSON: {"schema": {"$ref": "#/components/schemas/Signature"}, "example": signature(model)},
        "text/html": {"schema": {"type": "string"}},
    }
    return {
        "operationId": "getSignature",
        "summary": "The model's inputs and results; for a browser, a page with a form.",
        "responses": {"200": {"description": "The signature.", "content": content}},
    }


def _post(model: Model) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Inputs"}
    if len(model.inputs) == 1:
        schema = {"oneOf": [schema, array_schema(model.inputs[0])]}
    json_body: dict[str, Any] = {"schema": schema}
    if sum(formats.example(leaf).size for leaf in model.inputs) <= _LARGEST_EXAMPLE:
        json_body["example"] = {
            leaf.name: json_arrays.to_lists(formats.example(leaf), leaf.element_type) for leaf in model.inputs
        }
    bodies: dict[str, Any] = {formats.JSON: json_body, formats.NPZ: _file(), formats.FORM: _form(model)}
    answers: dict[str, Any] = {formats.JSON: {"schema": {"$ref": "#/components/schemas/Results"}}, formats.NPZ: _file()}
    if len(model.inputs) == 1:
        bodies |= {formats.NPY: _file(), formats.RAW: _file()}
    if len(model.results) == 1:
        answers |= {formats.NPY: _file(), formats.RAW: _file()}
    return {
        "operationId": "run",
        "summary": "Runs the model.",
        "requestBody": {"required": bool(model.inputs), "content": bodies},
        "responses": {"200": {"description": "The results.", "content": answers}}
        | {str(s): _error(s) for s in _ERRORS},
    }


def _form(model: Model) -> dict[str, Any]:
    parts: dict[str, Any] = {
        leaf.name: {"type": "string", "description": f"{leaf}: a file, or numbers as text"} for leaf in model.inputs
    }
    return {"schema": {"type": "object", "properties": parts, "required": list(parts)}}


def _file() -> dict[str, Any]:
    return {"schema": {"type": "string", "format": "binary"}}


def _error(status: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": _ERRORS[status],
        "content": {formats.JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    if status == 429:
        made["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return made


def _text(
    summary: str, operation: str, description: str, media_type: str, example: str | None = None
) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"type": "string"}}
    if example is not None:
        content["example"] = example
    answer = {"description": description, "content": {media_type: content}}
    return {"operationId": operation, "summary": summary, "responses": {"200": answer}}


def _signature_schema() -> dict[str, Any]:
    size = {
        "oneOf": [
            {"type": "integer"},
            {"type": "string", "pattern": r"^(<=|\d+\.\.)\d+$", "description": "A dynamic dimension's bounds."},
        ]
    }
    entry = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "type": {"type": "string", "description": "An element type of HLO, such as f32."},
            "shape": {"type": "array", "items": size},
        },
        "required": ["name", "type", "shape"],
    }
    entries = {"type": "array", "items": entry}
    properties = {"name": {"type": "string"}, "inputs": entries, "results": entries}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    details = {"status": {"type": "integer"}, "message": text, "field": text, "expected": text, "given": text}
    error = {"type": "object", "properties": details, "required": ["status", "message"]}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
