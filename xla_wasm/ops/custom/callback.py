"""Callbacks: custom calls by which JAX comes back to a Python function of the process that traced the program.

The call carries a number. The functions stay in that process, with the module that `xla_wasm.jax.lower` makes; of the
others, `jax.debug.print` leaves its format in the module, so that any host can print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ...hlo.ir import Instruction, Module

FORMATS = "xla_wasm.callback_formats"
"""The frontend attribute of a module that has, as JSON, the format of each callback that prints; see
`Request.format`."""

TARGETS = tuple(
    f"xla{ffi}_python_{device}_callback" for ffi in ("", "_ffi", "_ffi_partitioned") for device in ("cpu", "gpu")
)
ASSERTION = "shape_assertion"
"""The target of a call that ends the run: it stands where the inputs do not fit together, and its `backend_config` says
why, with numbers of its operands as fields."""
_NUMBER = r"\bindex\s*=\s*(\d+)"


def is_callback(x: Instruction) -> bool:
    """Returns True if a custom call is one of a Python function."""
    return x.attrs.get("custom_call_target") in TARGETS


def number_of(x: Instruction) -> str:
    """By which its function is known: the number that JAX gave it, or the instruction's name where it gave an address
    instead."""
    found = re.search(_NUMBER, config_of(x))
    return found[1] if found else x.name


def function_name(x: Instruction) -> str:
    """Returns the name that hosts have for the function."""
    return f"callback {number_of(x)}"


def config_of(x: Instruction) -> str:
    """Returns the text that a custom call carries for the function that it calls."""
    config = x.attrs.get("backend_config") or b""
    return config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)


def place_of(x: Instruction) -> str:
    """Returns the place where the user wrote it, as far as is known: JAX's name of the operation, file and line."""
    meta = x.metadata
    if meta is None:
        return ""
    parts = [meta.op_name, f"{meta.source_file}:{meta.source_line}" if meta.source_file else ""]
    return ", ".join(part for part in parts if part)


def formats(module: Module) -> Mapping[str, str]:
    """The format of each callback that prints, by its number."""
    try:
        found = json.loads(module.frontend_attributes.get(FORMATS, "{}"))
    except ValueError:
        return {}
    return {key: text for key, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def has_results(x: Instruction) -> bool:
    """Returns True if it gives arrays, and not only a token."""
    return any(not leaf.is_token for _, leaf in x.shape.leaves())
