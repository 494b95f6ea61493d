"""The pages for people: the form at `/`, and the description at `/docs`. They ask nobody else for anything."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from ..host.leaf import Leaf
from . import formats
from .model import Model

_STYLE, _SCRIPT = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
_LARGEST_FILL = 1 << 16
"""Elements that the page makes up for an input at most."""


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; form-action "
    f"'self'; "
    "img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""The pages' content security policy."""


def front(model: Model) -> bytes:
    """The page with the signature and a form."""
    fields = "".join(map(_field, model.inputs)) or '<p class="soft">The model takes no inputs.</p>'
    able = all(formats.example(leaf).size <= _LARGEST_FILL for leaf in model.inputs) and model.inputs
    fill = '<button type="button" class="plain" data-fill hidden>Fill in random numbers</button>'
    body = f"""{_head(model.name, '<a href="docs">Interface</a><a href="metrics">Metrics</a>')}
<main>
<form class="card" method="post" action="" enctype="multipart/form-data">
{fields}
<div class="actions">
<button type="submit">Run</button>{fill if able else fill.replace("hidden", "hidden disabled")}
</div>
</form>
<section class="card" id="answer" aria-live="polite" hidden></section>
<section class="card"><h2>What it returns</h2>{_leaves(model.results)}</section>
</main>
<script type="module">{_SCRIPT}</script>"""
    return _page(model.name, body)


def _field(leaf: Leaf) -> str:
    name = escape(leaf.name)
    sizes = json.dumps(formats.example(leaf).shape)
    return f"""<fieldset data-name="{name}" data-type="{leaf.element_type}" data-sizes="{sizes}">
<legend>{name} <code>{escape(str(leaf))}</code></legend>
<label class="label">Numbers, or JSON<textarea name="{name}" spellcheck="false" autocomplete="off"></textarea></label>
<label class="label">or a file: .npy, .json, .txt or raw bytes<br><input type="file" name="{name}"></label>
</fieldset>
"""


def _leaves(leaves: Sequence[Leaf]) -> str:
    rows = "".join(f"<tr><th>{escape(leaf.name)}</th><td><code>{escape(str(leaf))}</code></td></tr>" for leaf in leaves)
    return f"<table>{rows}</table>" if rows else '<p class="soft">There are none.</p>'


def reference(openapi: dict[str, Any]) -> bytes:
    """The page that an OpenAPI document is for people."""
    title = openapi["info"]["title"]
    head = _head(title, '<a href="./">Form</a><a href="openapi.json">openapi.json</a>')
    parts = [
        _operation(path, method, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = "".join(
        f"<h3>{escape(name)}</h3>{_code(schema)}" for name, schema in openapi["components"]["schemas"].items()
    )
    return _page(
        f"{title}: interface",
        f'{head}\n<main>{"".join(parts)}<section class="card"><h2>Schemas</h2>{schemas}</section></main>',
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    rows = "".join(f"<tr><th>{escape(kind)}</th><td>{_brief(content)}</td></tr>" for kind, content in body.items())
    asked = f"<h3>Body</h3><table>{rows}</table>" if rows else ""
    example = body.get(formats.JSON, {}).get("example")
    if example is not None:
        sent = escape(json.dumps(example, separators=(",", ":")))
        asked += f"<h3>Example</h3><pre>curl -H 'Content-Type: {formats.JSON}' -d '{sent}' ADDRESS{path}</pre>"
    answers = "".join(
        f"<tr><th>{status}</th><td>{escape(answer['description'])} "
        f"{_kinds(answer) if status == '200' else ''}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    title = f'<span><span class="method">{method.upper()}</span> <code>{escape(path)}</code></span>'
    summary = f'<p class="soft">{escape(operation["summary"])}</p>'
    return f'<section class="card"><h2>{title}</h2>{summary}{asked}<h3>Answers</h3><table>{answers}</table></section>\n'


def _kinds(answer: dict[str, Any]) -> str:
    return " ".join(f"<code>{escape(kind)}</code>" for kind in answer.get("content", {}))


def _brief(content: dict[str, Any]) -> str:
    """A schema in a few words."""
    schema = content["schema"]
    if "description" in schema:
        return escape(schema["description"])
    if "oneOf" in schema:
        return " or ".join(_brief({"schema": one}) for one in schema["oneOf"])
    if "$ref" in schema:
        return f"<code>{escape(schema['$ref'].rpartition('/')[2])}</code>"
    if schema.get("format") == "binary":
        return "bytes"
    if "properties" in schema:
        return ", ".join(f"<code>{escape(name)}</code>" for name in schema["properties"])
    return escape(schema["type"])


def _code(content: object) -> str:
    return f"<pre>{escape(json.dumps(content, indent=1))}</pre>"


def _head(title: str, links: str) -> str:
    return f"<header><h1>{escape(title)}</h1><nav>{links}</nav></header>"


def _page(title: str, body: str) -> bytes:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
{body}
</html>
""".encode()
