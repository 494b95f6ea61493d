"""A JavaScript module for an artifact: `model.js` and `model.d.ts` load `model.wasm` and name, shape and type what goes
in and out.

There are two kinds of it. One of kind "module" fetches the `.wasm` from beside itself. One of kind "worker" imports it,
as edge runtimes want it, which compile no bytes and do not say where a file lies; its weights are parts of a file among
the assets.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import files
from .artifact import Artifact
from .artifact import outputs as artifact_outputs
from .errors import ArgumentError, visible
from .hlo.structure import LISTED, leaves, parts
from .hlo.types import ARRAY_TYPES, TYPES
from .host.leaf import Leaf
from .host.manifest import Manifest
from .site.pages import site
from .target import MODULE, WORKER

PACKAGE = "xla-wasm"
"""The npm package with the loader."""
FOLDERS = ("", "arrays", "devices", "diagnostics", "http", "limits", "requests", "threads", "weights")
"""The folders of the site that hold the loader."""
BESIDE = "./xla-wasm/xla_wasm.js"
"""The loader in a folder beside the module, where `copy_loader` puts it."""
KINDS = ("module", "worker")
"""The places that the JavaScript is for: pages and whatever else fetches the `.wasm`, or edge runtimes."""
ASSETS = "assets"
"""The folder beside a worker with what the host keeps for it."""
PART = 25 << 20
"""The most bytes of one asset: what Cloudflare takes, the least that is known of hosts."""
ISOLATE = 128_000_000
"""The bytes of memory that Cloudflare and Vercel give to a worker, that of its modules included."""
LONGEST_LINE = 200
"""The most characters that a comment quotes: a forged name may be as long as a file."""

_TYPED_ARRAYS = {
    "?": "Uint8Array",
    "b": "Int8Array",
    "B": "Uint8Array",
    "h": "Int16Array",
    "H": "Uint16Array",
    "i": "Int32Array",
    "I": "Uint32Array",
    "q": "BigInt64Array",
    "Q": "BigUint64Array",
    "e": "Uint16Array",
    "f": "Float32Array",
    "d": "Float64Array",
}
"""The class of arrays for each format of an element in `struct`."""
TYPED_ARRAY_OF = {name: _TYPED_ARRAYS[TYPES[name].code] for name in ARRAY_TYPES}
"""Element type -> the class of arrays of its values or, of f16 and floats that JavaScript has not, of their bits."""


def save(artifact: Artifact, path: str | os.PathLike[str], loader: str | None = None, kind: str = MODULE) -> Path:
    """Saves the artifact with its JavaScript beside, all that a page or worker needs; without `loader`, the loader too.
    Returns `path`."""
    if kind not in KINDS:
        raise ArgumentError(f"there is no JavaScript of kind {kind!r}: choose one of {', '.join(KINDS)}")
    Manifest.parse(artifact.manifest)
    target = Path(path)
    files.check_outputs(outputs(target, artifact.sizes[1] > 0, kind))
    target.parent.mkdir(parents=True, exist_ok=True)
    if loader is None:
        copy_loader(target.parent)
    if kind == WORKER:
        write_parts(artifact, target)
        Artifact(artifact.wasm, artifact.manifest).save(target)
    else:
        artifact.save(target)
    write(artifact, target, loader or BESIDE, kind)
    return target


def outputs(path: Path, weights: bool, kind: str) -> Iterator[tuple[str, Path]]:
    """Yields the files that `save` writes at and beside a path, each with its content. The weights of a worker lie in a
    folder of their own."""
    yield from artifact_outputs(path, weights and kind != WORKER)
    if visible(path.name) != path.name:
        raise ArgumentError(
            f"{path} has control characters, or is not UTF-8, and its JavaScript has to name it: choose another name"
        )
    yield "its JavaScript", path.with_suffix(".js")
    yield "its types", path.with_suffix(".d.ts")


def written(artifact: Artifact, path: Path, kind: str) -> list[Path]:
    """The files that `save` has written at and beside a path, the loader apart."""
    parts = [path.parent / ASSETS / name for name in _parts(artifact, path.name)] if kind == WORKER else []
    return [*(place for _, place in outputs(path, artifact.sizes[1] > 0, kind)), *parts]


def write(artifact: Artifact, path: Path, loader: str = PACKAGE, kind: str = MODULE) -> list[Path]:
    """Writes the `.js` and `.d.ts` that go with the artifact at `path`, importing `load` from `loader`; returns their
    paths."""
    texts = {".js": source(artifact, path.name, loader, kind), ".d.ts": declarations(artifact, loader, kind)}
    for suffix, text in texts.items():
        files.write(path.with_suffix(suffix), text)
    return [path.with_suffix(suffix) for suffix in texts]


def write_parts(artifact: Artifact, path: Path) -> list[Path]:
    """Writes the weights of the artifact at `path` into `assets/` beside it, in parts that hosts take; returns their
    paths."""
    folder = path.parent / ASSETS
    parts = [folder / name for name in _parts(artifact, path.name)]
    # What a larger model of this name has left there would be deployed too.
    for old in set(folder.glob(f"{glob.escape(path.stem)}.weights.*")) - set(parts):
        if old.suffix[1:].isdecimal():
            old.unlink()
    if parts:
        folder.mkdir(exist_ok=True)
    for i, part in enumerate(parts):
        files.write(part, artifact.weights[i * PART : (i + 1) * PART])
    return parts


def copy_loader(folder: Path) -> Path:
    """Puts the loader into `xla-wasm/` in `folder`, for sites without npm; what imports it does so from `BESIDE`."""
    target = folder / PACKAGE
    for part in FOLDERS:
        for file in sorted([*(site() / part).glob("*.js"), *(site() / part).glob("*.d.ts")]):
            place = target / part / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            files.copy(file, place)
    return target


def memory(artifact: Artifact) -> str:
    """Returns sentences about what a worker's module takes of the memory that hosts allow, and what to do if that is
    too much."""
    needed = Manifest.parse(artifact.manifest).memory_bytes
    share = f"memory {needed / 1e6:.1f} MB of the {ISOLATE // 1_000_000} MB that a worker may have"
    return (
        share if needed < ISOLATE else f"{share}: hosts will end it. Smaller batches and weights of 16 bits take less"
    )


def source(artifact: Artifact, wasm: str, loader: str = PACKAGE, kind: str = MODULE) -> str:
    """The text of `model.js` beside a file called `wasm`."""
    manifest = Manifest.parse(artifact.manifest)
    imports, load = (_importing if kind == WORKER else _fetching)(artifact, manifest, wasm, loader)
    return f"""// {_line(manifest.name)}: a model compiled by {_line(manifest.producer)}. Its types are in the .d.ts beside it.

{imports}
/** What `run` takes. Arrays are flat, in row-major order. */
export const inputs = {_table(_of_kind(manifest, "input"))};

/** What `run` gives. */
export const results = {_table(_outputs(manifest))};

{load}"""  # noqa: E501


def _fetching(artifact: Artifact, manifest: Manifest, wasm: str, loader: str) -> tuple[str, str]:
    """The imports and `load` of a script that fetches the files beside it. Bundlers look for addresses that are written
    in this way."""
    weights = ""
    if artifact.sizes[1]:
        own = f"beside(() => {_address(str(Path(wasm).with_suffix('.weights')))})"
        weights = f", weights: options?.weights ?? (module ? undefined : {own})"
        if _of_kind(manifest, "weight"):
            weights = f", weights: [module ? [] : {own}, options?.weights ?? []].flat()"
    lost = (
        f"this runtime does not say where {wasm} lies: import it and call load(wasm), or compile it with --kind worker"
    )
    return (
        f"import {{ UnsupportedError, load as loadModule }} from {_text(loader)};\n",
        f"""/** The address of a file beside this one. */
function beside(address) {{
  try {{
    return address();
  }} catch (cause) {{
    throw new UnsupportedError({_text(lost)}, {{ cause }});
  }}
}}

/** Loads the model; `options` are those of the loader. `load(wasm, options)` takes a WebAssembly.Module instead of the file beside. */
export async function load(...given) {{
  const module = given[0]?.[Symbol.toStringTag] === 'WebAssembly.Module' ? given.shift() : undefined;
  const [options] = given;
  return loadModule(module ?? beside(() => {_address(wasm)}), {{ named: true, ...options{weights} }});
}}
""",  # noqa: E501
    )


def _importing(artifact: Artifact, manifest: Manifest, wasm: str, loader: str) -> tuple[str, str]:
    """The imports and `load` of a script that imports the module itself, which a bundler or the runtime has
    compiled."""
    imports = f"import {{ load as loadModule }} from {_text(loader)};\n"
    module = (
        f"// Vercel's edge runtime wants it so: import wasm from {_text(f'./{wasm}?module')};\nimport wasm from "
        f"{_text(f'./{wasm}')};\n"
    )
    if not artifact.sizes[1]:
        return imports + module, "/** Loads the model; `options` are those of the loader. */\n" + (
            "export const load = async (options) => loadModule(wasm, { named: true, ...options });\n"
        )
    names = "".join(f"  {_text(name)},\n" for name in _parts(artifact, wasm))
    weights = "await joined(weights, assets, base)"
    given = f"options.weights ?? ({weights})"
    if _of_kind(manifest, "weight"):
        given = f"[{weights}, options.weights ?? []].flat()"
    parts = f"{loader.removesuffix('/xla_wasm.js')}/parts.js"
    return (
        f"{imports}import {{ joined }} from {_text(parts)};\n{module}",
        f"""/** The files in {ASSETS}/ that hold the weights, one after another. */
export const weights = [
{names}];

/**
 * Loads the model with its weights from `assets`, as `load({{ assets: env.ASSETS }})`. Where `assets` fetch from anywhere, `base` is the
 * address that the files lie at. The other options are those of the loader.
 */
export const load = async ({{ assets, base, ...options }} = {{}}) =>
  loadModule(wasm, {{ named: true, ...options, weights: {given} }});
""",  # noqa: E501
    )


def _parts(artifact: Artifact, wasm: str) -> list[str]:
    """The names of the files that the weights of a worker are in."""
    return [f"{Path(wasm).stem}.weights.{i}" for i in range(-(-artifact.sizes[1] // PART))]


def declarations(artifact: Artifact, loader: str = PACKAGE, kind: str = MODULE) -> str:
    """The text of `model.d.ts`."""
    manifest = Manifest.parse(artifact.manifest)
    held = [leaf for leaf in manifest.parameters if leaf.kind != "input"]
    taken, load = (
        ("LoadOptions, Model", _WORKER_LOAD)
        if kind == WORKER
        else ("Count, LoadOptions, Model, RemoteModel, ReplicatedModel", _LOAD)
    )
    if manifest.structure is None:
        taken = f"AnyStructure, {taken}"
    if kind == WORKER and artifact.sizes[1]:
        load = _WEIGHTED_LOAD
    flat = ", ".join(f"Inputs[{_text(leaf.name)}]" for leaf in _of_kind(manifest, "input"))
    trees = _unstructured(flat) if manifest.structure is None else _structures(manifest, flat)
    return f"""// {_line(manifest.name)}: what goes in and out of a model compiled by {_line(manifest.producer)}.

import type {{ {taken} }} from {_text(loader)};

/** What `run` takes, flat and in row-major order. */
export interface Inputs {_fields(_of_kind(manifest, "input"), given=True)}

/** What `run` gives. */
export interface Results {_fields(_outputs(manifest), given=False)}

/** What stays inside between runs: `set` and `get` take these names. */
export interface Held {_fields(held, given=True)}
{trees}
export declare const inputs: {_table(_of_kind(manifest, "input"), "readonly ")};
export declare const results: {_table(_outputs(manifest), "readonly ")};

{load}"""


_LOAD = """/** Loads the model, with the option `worker` into a worker, with `devices` into one for each; then its methods give promises. */
export declare function load(options: LoadOptions & { devices: Count }): Promise<ReplicatedModel<Inputs, Results, Held, Trees>>;
type OnOne = { devices?: undefined };
type InWorker = { worker: true | string | URL } | { untrusted: true };
export declare function load(options: LoadOptions & OnOne & InWorker): Promise<RemoteModel<Inputs, Results, Held, Trees>>;
type Here = OnOne & { worker?: false; untrusted?: false };
export declare function load(options?: LoadOptions & Here): Promise<Model<Inputs, Results, Held, Trees>>;
// To TypeScript any object is a WebAssembly.Module; options are none.
type Compiled = WebAssembly.Module & { [Name in keyof LoadOptions]?: undefined };
/** Loads the model from a module that is compiled already, where files have no addresses. */
export declare function load(wasm: Compiled, options?: LoadOptions & Here): Promise<Model<Inputs, Results, Held, Trees>>;
"""  # noqa: E501
_WORKER_LOAD = """type Here = Omit<LoadOptions, 'devices' | 'worker'>;

/** Loads the model. */
export declare function load(options?: Here): Promise<Model<Inputs, Results, Held, Trees>>;
"""
_WEIGHTED_LOAD = """type Here = Omit<LoadOptions, 'devices' | 'worker'>;
/** Where files come from, such as `env.ASSETS`. */
type Assets = { fetch: (url: string) => Promise<Response> };

/** The files among the assets that hold the weights, one after another. */
export declare const weights: readonly string[];

/** Loads the model with its weights from `assets`; where these fetch from anywhere, `base` is the address that the files lie at. */
export declare function load(options: Here & { assets?: Assets; base?: string | URL }): Promise<Model<Inputs, Results, Held, Trees>>;
"""  # noqa: E501


def _of_kind(manifest: Manifest, kind: str) -> list[Leaf]:
    return [leaf for leaf in manifest.parameters if leaf.kind == kind]


def _outputs(manifest: Manifest) -> list[Leaf]:
    return [leaf for leaf in manifest.results if leaf.kind == "output"]


def _visible(text: str) -> str:
    """The text with what cannot be seen as escapes: line breaks of JavaScript, and what turns text around or steers a
    terminal."""
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\u{{{ord(c):x}}}" for c in text
    )


def _text(value: str) -> str:
    """A string literal."""
    escaped = _visible(value.replace("\\", "\\\\")).replace("'", "\\'")
    # A bundler may put the script into a page.
    return "'" + escaped.replace("</", "<\\/").replace("<!--", "<\\!--") + "'"


def _line(value: str) -> str:
    """Text for a comment that ends with its line."""
    line = _visible(" ".join(value.split()))
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "..."


def _address(name: str) -> str:
    return f"new URL({_text('./' + quote(name))}, import.meta.url)"


def _key(name: str) -> str:
    # In an object literal this one would set the prototype.
    if name == "__proto__":
        return "['__proto__']"
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name, re.ASCII) else _text(name)


def _unstructured(flat: str) -> str:
    """The types of a function whose structures nobody knows; `flat`: those of its inputs."""
    return f"""
/** What `run` takes in order. */
export interface Trees extends AnyStructure {{
  ordered: [{flat}];
}}
"""


def _structures(manifest: Manifest, flat: str) -> str:
    """The types of the function's arguments and results, in its structures, and of what of them stays inside; `flat`:
    those of its inputs."""
    structure = manifest.structure
    assert structure is not None
    named = dict(zip(structure["names"], structure["arguments"]))
    kinds = [leaf.kind for leaf in manifest.parameters]
    inputs, held = (
        {name for name, tree in named.items() if any(_is_input(kinds[i], own) for i in leaves(tree))}
        for own in (True, False)
    )
    taken = [name for name, tree in named.items() if name in inputs or not [*leaves(tree)]]
    arguments = [(name, _given(named[name], manifest.parameters, True)) for name in taken]
    own = {leaf.name for leaf in manifest.parameters if leaf.kind != "input"}
    kept = [
        (name, _given(tree, manifest.parameters, False))
        for name, tree in named.items()
        if name in held and name not in own
    ]
    places = ", ".join(f"Arguments[{_text(name)}]" for name in taken)
    picked = " | ".join(_text(name) for name in taken if name in inputs)
    given = ", ".join(f"Arguments[{_text(name)}]" for name in taken if name in inputs)
    return f"""
/** The arguments of the function that the model was lowered from, without those that stay inside. */
export interface Arguments {_members(arguments)}

/** What the function returns; null for what stays inside. */
export type Returned = {_returned(structure["results"], manifest.results)};

/** What `call` takes, in order or in one object, and gives; what `run` takes by name, and in order; what `set` takes for a name of several. */
export interface Trees {{
  arguments: [{places}]{" | [Arguments]" if taken else ""};
  inputs: {f"Pick<Arguments, {picked}>" if picked else "{}"};
  ordered: {" | ".join(dict.fromkeys((f"[{given}]", f"[{flat}]")))};
  returned: Returned;
  held: {_members(kept, "  ")};
}}
"""  # noqa: E501


def _is_input(kind: str, own: bool) -> bool:
    """Returns True if a parameter of this kind is an input, or with `own` False, whether it stays inside."""
    return (kind == "input") == own


def _given(tree: Any, parameters: Sequence[Leaf], inputs: bool) -> str:
    """The type of an argument: of its inputs, or of what of it stays inside. What is not asked for is null, or left
    out."""
    if tree is None:
        return "unknown"
    if isinstance(tree, int):
        return _array(parameters[tree], True) if _is_input(parameters[tree].kind, inputs) else "null"
    keys, children = parts(tree)
    types = [_given(child, parameters, inputs) for child in children]
    if tree[0] in LISTED:
        return f"readonly [{', '.join(types)}]"
    wanted = [any(_is_input(parameters[i].kind, inputs) for i in leaves(child)) for child in children]
    return _object(
        [(f"{_key(str(key))}{'' if asked else '?'}", type_) for key, asked, type_ in zip(keys, wanted, types)]
    )


def _returned(tree: Any, results: Sequence[Leaf]) -> str:
    """The type of what a function returns."""
    own = [*leaves(tree)]
    if tree is None or (own and not any(results[i].kind == "output" for i in own)):
        return "null"
    if isinstance(tree, int):
        return _array(results[tree], False)
    keys, children = parts(tree)
    types = [_returned(child, results) for child in children]
    if tree[0] in LISTED:
        return f"[{', '.join(types)}]"
    return _object([(_key(str(key)), type_) for key, type_ in zip(keys, types)])


def _object(members: Sequence[tuple[str, str]]) -> str:
    return "{ " + "".join(f"{key}: {type_}; " for key, type_ in members) + "}"


def _members(fields: Sequence[tuple[str, str]], indent: str = "") -> str:
    """The body of an interface; a member of any type may be left out."""
    rows = [f"{indent}  {_key(name)}{'?' if type_ == 'unknown' else ''}: {type_};\n" for name, type_ in fields]
    return "{\n" + "".join(rows) + indent + "}" if rows else "{}"


def _table(arrays: Sequence[Leaf], modifier: str = "") -> str:
    end = ";" if modifier else ","
    rows = [
        f"  {modifier}{_key(leaf.name)}: {{ {modifier}type: {_text(leaf.element_type)}{end} "
        f"{modifier}shape: {modifier}[{', '.join(map(str, leaf.dimensions))}] }}{end}\n"
        for leaf in arrays
    ]
    return "{\n" + "".join(rows) + "}" if rows else "{}"


def _fields(arrays: Sequence[Leaf], given: bool) -> str:
    """The body of an interface with an array for each leaf."""
    rows = [f"  /** {leaf}{_note(leaf)} */\n  {_key(leaf.name)}: {_array(leaf, given)};\n" for leaf in arrays]
    return "{\n" + "".join(rows) + "}" if rows else "{}"


def _note(leaf: Leaf) -> str:
    return ", pairs of (real, imaginary)" if leaf.element_type[0] == "c" else ""


def _array(leaf: Leaf, given: bool) -> str:
    """The type of an array that is given to the model, or that comes from it."""
    element_type = leaf.element_type
    array = TYPED_ARRAY_OF[element_type]
    if element_type == "f16" and not given:
        # A Float16Array where the engine has one.
        array = "ArrayBufferView & ArrayLike<number>"
    if leaf.sizes:
        return f"({array}) & {{ shape{'?' if given else ''}: number[] }}"
    if given and not leaf.dimensions and array != "Uint16Array" and element_type[0] != "c":
        return array + (" | number | bigint" if array.startswith("Big") else " | number")
    return array
