"""The page of the Python API: the public names, of which mkdocstrings writes signatures and docstrings."""

from __future__ import annotations

from importlib import import_module

import xla_wasm

GROUPS = {
    "Compile": ["HloModule", "compile", "Options", "Artifact", "custom_call"],
    "Run": ["load", "Executable", "evaluate"],
    "Errors": [],
}
"""The headings of the page, with the names below each; errors are those that there are."""

OPTIONS = {
    # Its docstring tells of the fields: each is shown with its type and its default.
    "xla_wasm.Options": "show_if_no_docstring: true",
    # What it keeps to be written back as it was read is of no use to callers.
    "xla_wasm.HloModule": 'filters: ["!^_", "!^(unknown|kept|is_scheduled|propagate_to_)"]',
}
"""Class -> options of mkdocstrings for it alone."""

MODULES: dict[str, tuple[str, list[str] | None]] = {
    "JAX": ("xla_wasm.jax", None),
    "JavaScript for a page": ("xla_wasm.javascript", ["save"]),
    "Weights in files": ("xla_wasm.safetensors", ["Tensor", "read", "save", "bind"]),
}
"""Modules that are imported by name, with what is public in them: all that has no underscore, if nothing is said."""


def names() -> dict[str, list[str]]:
    """The headings, each with the full names of what stands below it; all public names of the package are among
    them."""
    errors = [name for name in xla_wasm.__all__ if name.endswith(("Error", "Warning"))]
    groups = {title: [f"xla_wasm.{name}" for name in group or errors] for title, group in GROUPS.items()}
    listed = {name for group in groups.values() for name in group}
    missing = {f"xla_wasm.{name}" for name in xla_wasm.__all__ if name != "__version__"} - listed
    if missing:
        raise ValueError(f"tools/docs/python_reference.py has no place for {', '.join(sorted(missing))}")
    modules = {
        title: [f"{module}.{name}" for name in public or _public(module)] for title, (module, public) in MODULES.items()
    }
    return groups | modules


def _public(module: str) -> list[str]:
    """The functions and classes that a module defines, in their order there."""
    contents = vars(import_module(module)).items()
    return [
        name for name, value in contents if name[0] != "_" and callable(value) and value.__module__.startswith(module)
    ]


def page() -> str:
    """The page, as Markdown with mkdocstrings' directives."""
    intro = (
        "# The Python API\n\nEverything here is made from the docstrings of this version.\n\n```python\nimport "
        "xla_wasm\n```\n"
    )
    parts = [f"\n## {title}\n\n" + "".join(map(_directive, group)) for title, group in names().items()]
    return intro + "".join(parts)


def _directive(name: str) -> str:
    options = f"    options:\n      {OPTIONS[name]}\n" if name in OPTIONS else ""
    return f"::: {name}\n{options}\n"
