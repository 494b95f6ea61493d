"""A JavaScript module for an artifact: `model.js` and `model.d.ts` load `model.wasm` and name, shape and type what goes in and out."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .artifact import Artifact
from .pages import site

PACKAGE = "xla-wasm"
"""The npm package with the loader."""
BESIDE = "./xla-wasm/xla_wasm.js"
"""The loader in a folder beside the module, where `copy_loader` puts it."""

_ARRAYS = {
    "Int8Array": "s1 s2 s4 s8",
    "Uint8Array": "pred u1 u2 u4 u8",
    "Int16Array": "s16",
    "Uint16Array": "u16 bf16 f16",
    "Int32Array": "s32",
    "Uint32Array": "u32",
    "BigInt64Array": "s64",
    "BigUint64Array": "u64",
    "Float32Array": "f32 c64",
    "Float64Array": "f64 c128",
}
_ARRAY_OF = {name: array for array, names in _ARRAYS.items() for name in names.split()}


def save(artifact: Artifact, path: str | os.PathLike[str], loader: str | None = None) -> Path:
    """Saves the artifact with its JavaScript beside, all that a page needs; without `loader`, the loader too. Returns `path`."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if loader is None:
        copy_loader(target.parent)
    write(artifact, artifact.save(target), loader or BESIDE)
    return target


def write(artifact: Artifact, path: Path, loader: str = PACKAGE) -> list[Path]:
    """Writes the `.js` and `.d.ts` that go with the artifact at `path`, importing `load` from `loader`; returns their paths."""
    script, types = path.with_suffix(".js"), path.with_suffix(".d.ts")
    script.write_text(source(artifact, path.name, loader), encoding="utf-8")
    types.write_text(declarations(artifact, loader), encoding="utf-8")
    return [script, types]


def copy_loader(folder: Path) -> Path:
    """Puts the loader into `xla-wasm/` in `folder`, for sites without npm; what imports it does so from `BESIDE`."""
    target = folder / PACKAGE
    for file in (*sorted(site().glob("*.js")), *sorted((site() / "lazy").glob("*.js"))):
        place = target / file.relative_to(site())
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return target


def source(artifact: Artifact, wasm: str, loader: str = PACKAGE) -> str:
    """The text of `model.js` beside a file called `wasm`."""
    manifest = artifact.manifest
    address = _address(wasm)
    options = "{ named: true, ...options }"
    if artifact.weights:
        sidecar = _address(str(Path(wasm).with_suffix(".weights")))
        options = f"{{ named: true, weights: {sidecar}, ...options }}"
        if _of_kind(manifest, "weight"):
            options = f"{{ named: true, ...options, weights: [{sidecar}, ...[options?.weights ?? []].flat()] }}"
    return f"""// {_line(manifest["name"])}: a model compiled by {manifest["producer"]}. Its types are in the .d.ts beside it.

import {{ load as loadModule }} from {_text(loader)};

/** What `run` takes. Arrays are flat, in row-major order. */
export const inputs = {_table(_of_kind(manifest, "input"))};

/** What `run` gives. */
export const results = {_table(_outputs(manifest))};

/** Loads the model; `options` are those of the loader. */
export const load = (options) =>
  loadModule({address}, {options});
"""


def declarations(artifact: Artifact, loader: str = PACKAGE) -> str:
    """The text of `model.d.ts`."""
    manifest = artifact.manifest
    held = [leaf for leaf in manifest["parameters"] if leaf["kind"] != "input"]
    return f"""// {_line(manifest["name"])}: what goes in and out of a model compiled by {manifest["producer"]}.

import type {{ Count, LoadOptions, Model, RemoteModel, ReplicatedModel }} from {_text(loader)};

/** What `run` takes, flat and in row-major order. */
export interface Inputs {_fields(_of_kind(manifest, "input"), given=True)}

/** What `run` gives. */
export interface Results {_fields(_outputs(manifest), given=False)}

/** What stays inside between runs: `set` and `get` take these names. */
export interface Held {_fields(held, given=True)}

export declare const inputs: {_table(_of_kind(manifest, "input"), "readonly ")};
export declare const results: {_table(_outputs(manifest), "readonly ")};

/** Loads the model, with the option `worker` into a worker, with `devices` into one for each; then its methods give promises. */
export declare function load(options: LoadOptions & {{ devices: Count }}): Promise<ReplicatedModel<Inputs, Results, Held>>;
type OnOne = {{ devices?: undefined }};
export declare function load(options: LoadOptions & OnOne & {{ worker: true | string | URL }}): Promise<RemoteModel<Inputs, Results, Held>>;
export declare function load(options?: LoadOptions & OnOne & {{ worker?: false }}): Promise<Model<Inputs, Results, Held>>;
"""


def _of_kind(manifest: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [leaf for leaf in manifest["parameters"] if leaf["kind"] == kind]


def _outputs(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [leaf for leaf in manifest["results"] if leaf["kind"] == "output"]


def _text(value: str) -> str:
    """A string literal."""
    escaped = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{escaped}'"


def _line(value: str) -> str:
    return " ".join(value.split())


def _address(name: str) -> str:
    return f"new URL({_text('./' + quote(name))}, import.meta.url)"


def _key(name: str) -> str:
    # In an object literal this one would set the prototype.
    if name == "__proto__":
        return "['__proto__']"
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name, re.ASCII) else _text(name)


def _shape(leaf: dict[str, Any]) -> str:
    """The type and shape as HLO writes them."""
    sizes = leaf.get("sizes") or [None] * len(leaf["dimensions"])
    dimensions = ",".join(str(d) if size is None else f"<={d}" for d, size in zip(leaf["dimensions"], sizes))
    return f"{leaf['element_type']}[{dimensions}]"


def _table(leaves: list[dict[str, Any]], modifier: str = "") -> str:
    end = ";" if modifier else ","
    rows = [
        f"  {modifier}{_key(leaf['name'])}: {{ {modifier}type: {_text(leaf['element_type'])}{end} "
        f"{modifier}shape: {modifier}[{', '.join(map(str, leaf['dimensions']))}] }}{end}\n"
        for leaf in leaves
    ]
    return "{\n" + "".join(rows) + "}" if rows else "{}"


def _fields(leaves: list[dict[str, Any]], given: bool) -> str:
    """The body of an interface with an array for each leaf."""
    rows = []
    for leaf in leaves:
        element_type = leaf["element_type"]
        array = _ARRAY_OF.get(element_type, "Uint8Array")
        note = _shape(leaf) + (", pairs of (real, imaginary)" if element_type[0] == "c" else "")
        if element_type == "f16" and not given:
            # A Float16Array where the engine has one.
            array = "ArrayBufferView & ArrayLike<number>"
        if leaf.get("sizes"):
            array = f"({array}) & {{ shape{'?' if given else ''}: number[] }}"
        elif given and not leaf["dimensions"] and array != "Uint16Array" and element_type[0] != "c":
            array += " | number | bigint" if array.startswith("Big") else " | number"
        rows.append(f"  /** {note} */\n  {_key(leaf['name'])}: {array};\n")
    return "{\n" + "".join(rows) + "}" if rows else "{}"
