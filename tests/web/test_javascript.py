"""Parts of a forged artifact that get into the `model.js` and `model.d.ts` made for it: names, as text, and nothing
that runs."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.host.test_structures import PARAMS, X, f
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import change, toy_manifest
from tests.web.test_structures_js import Pair
from xla_wasm import ArtifactError, Options, javascript
from xla_wasm.artifact import Artifact
from xla_wasm.jax import lower

CODE = "globalThis.forged = 1"
NAMES = [
    f"*/ {CODE}; /*",
    f"\n{CODE}//",
    f"\r{CODE}//",
    f"\u2028{CODE}//",
    f"\u2029{CODE}//",
    f"'; {CODE}; '",
    f"\\'; {CODE}; //",
    f"\\\\'; {CODE}; //",
    f'"; {CODE}; "',
    f"`${{{CODE}}}`",
    f"']: 1, [({CODE})]: {{}}, '",
    f"</script><script>{CODE}</script>",
    f"<!-- {CODE}",
    f"--> {CODE}",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "toString",
    "class",
    "",
    "\0",
    "\x1b]0;owned\x07\x1b[2J",
    "\u202e\u2066 turned around",
    "\ud800",
    "\udfff\ud800",
    "\U0001f600",
    "Größe",
]
LOADER = (
    "export class UnsupportedError extends Error {}\nexport const load = () => undefined, joined = () => undefined;\n"
)
SHOW = """
import { inputs, results } from './model.js';
const prototypes = [inputs, results].map((table) => Object.getPrototypeOf(table) === Object.prototype);
console.log(JSON.stringify({ inputs: Object.keys(inputs), results: Object.keys(results), prototypes, forged: globalThis.forged ?? null }));
"""  # noqa: E501
# What a manifest may hold in the place of what belongs there, and what is said of it.
FORGED: dict[str, tuple[str, Any, str]] = {
    "code as a dimension": ("parameters.0.dimensions", [f"({CODE}, 2)", 3], r"at parameters\[0\].dimensions"),
    "code as a dimension of a result": ("results.0.dimensions", [f"({CODE}, 2)", 3], r"at results\[0\].dimensions"),
    "true as a dimension": ("parameters.0.dimensions", [True, 3], r"at parameters\[0\].dimensions"),
    "a dimension below none": ("parameters.0.dimensions", [-1, 3], r"at parameters\[0\].dimensions"),
    "code as a type": ("parameters.0.element_type", f"f32*/ {CODE} /*", r"at parameters\[0\].element_type"),
    "code as a size": ("parameters.0.sizes", [f"*/ {CODE} /*", None], r"at parameters\[0\].sizes"),
    "a list as a name": ("parameters.0.name", [CODE], r"at parameters\[0\].name"),
    "a list as the producer": ("producer", [CODE], "at producer"),
    "no producer": ("producer", None, "at producer"),
    "a number as the name": ("name", 3, "at name"),
    "another kind": ("parameters.0.kind", "inputs", r"at parameters\[0\].kind"),
    "no parameters": ("parameters", {}, "at parameters"),
    "code as the pages": ("pages", CODE, "at pages"),
}


def forged(path: str, value: Any) -> Artifact:
    return Artifact(b"", change(path, value), b"weights")


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("kind", javascript.KINDS)
def test_a_forged_manifest_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    path, value, message = FORGED[name]
    artifact = forged(path, value)
    works: list[Callable[[], Any]] = [
        lambda: javascript.source(artifact, "model.wasm", kind=kind),
        lambda: javascript.declarations(artifact, kind=kind),
        lambda: javascript.memory(artifact),
        lambda: javascript.write(artifact, tmp_path / "model.wasm", kind=kind),
        lambda: javascript.save(artifact, tmp_path / "model.wasm", kind=kind),
    ]
    for work in works:
        with pytest.raises(ArtifactError, match=message):
            work()
    assert list(tmp_path.iterdir()) == [], "nothing is written for it"


@pytest.mark.parametrize("kind", javascript.KINDS)
def test_names_are_text(kind: str, tmp_path: Path) -> None:
    """Any string may be the name of something, and the producer; it stays what it is, and is nowhere taken for code."""
    manifest = toy_manifest()
    x, y = manifest["parameters"][0], manifest["results"][0]
    manifest["parameters"] = [copy.deepcopy(x) | {"name": name} for name in NAMES]
    manifest["results"] = [copy.deepcopy(y) | {"name": name} for name in NAMES]
    manifest |= {"name": "".join(NAMES), "producer": "\n".join(NAMES), "inits": []}
    artifact = Artifact(b"", manifest, b"weights")
    files = javascript.write(artifact, tmp_path / "model.wasm", "./loader.js", kind)
    for file in files:
        head, *rest = file.read_text(encoding="utf-8").split("\n")
        assert head.startswith("// ") and len(head) < 600 and rest[0] == "", "comments on one line"
        assert all(char.isprintable() for line in (head, *rest) for char in line), (
            "nothing that editors and terminals act upon"
        )
    script = files[0].read_text(encoding="utf-8").replace("import wasm from './model.wasm';", "const wasm = undefined;")
    files[0].write_text(script.replace("./loader.js/parts.js", "./loader.js"), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "loader.js").write_text(LOADER)
    (tmp_path / "show.js").write_text(SHOW)
    said = json.loads(output([node_for("simd128"), "show.js"], tmp_path))
    assert said == {"inputs": NAMES, "results": NAMES, "prototypes": [True, True], "forged": None}
    said = typescript(tmp_path, "--noEmit --strict --module esnext --target es2022", files[1])
    assert [line for line in said.splitlines() if "error TS2307" not in line and "error TS7016" not in line] == []


def test_the_whole_loader_is_copied(tmp_path: Path) -> None:
    """Every file of the JavaScript host, in its folder; the demo pages are not part of it."""
    web = ROOT / "web"
    files = {path.relative_to(web) for path in web.rglob("*.[jt]s") if path.relative_to(web).parts[0] != "demo"}
    copied = javascript.copy_loader(tmp_path)
    assert {path.relative_to(copied) for path in copied.rglob("*.[jt]s")} == files


TREES = """
import { load } from './model.js';

const w = new Float32Array(6), b = new Float32Array(2), x = new Float32Array(9);
const model = await load();
const flat: Float32Array = model.run({ 'params.b.0': b, x, scale: 1 }).y;
const nested: Float32Array = model.run({ params: { b: [b] }, x, scale: 1 }, { out: [] })['sums.1.0'];
const ordered: Float32Array = model.run({ b: [b] }, x, 1, { out: [] }).y;
const inOrder: Float32Array = model.run(b, x, 1).y;
const { y, sums: [total, [top]] } = model.call({ b: [b] }, x, 2);
const named: Float32Array = model.call({ params: { b: [b], w: null }, x, scale: x }, { infeed: [] }).sums[1][0];
model.set('params.w', w);
model.set('params', { w });
model.set('params', { b: [null], w });
const held: Float32Array = model.get('params').w;
const one: Float32Array = model.get('params.w');
const seen: Float32Array = model.input('params.b.0');
const remote = await load({ worker: true });
const far: Float32Array = (await remote.call({ b: [b] }, x, 2)).y;
const there: Float32Array = (await remote.run(b, x, 1, { signal: AbortSignal.timeout(9) })).y;
const away: Float32Array = (await remote.run({ params: { b: [b] }, x, scale: 1 })).y;
await remote.set('params', { w });
const kept: Float32Array = (await remote.get('params')).w;
const group = await load({ devices: 2 });
const whole: Float32Array = (await group.call({ b: [b] }, x, 2, { signal: AbortSignal.timeout(9) })).sums[0];
const list = await group.runReplicated([{ params: { b: [b] }, x, scale: 1 }, [b, x, 1]]);
await group.set('params', { w }, 1);
model.profile(b, x, 1);
console.log(ordered, inOrder, there);
console.log(flat, nested, y, total, top, named, held, one, seen, far, away, kept, whole, list[0].y);
"""
MISTYPED_TREES = [
    "model.run({ params: { b: [1] }, x, scale: 1 });",
    "model.run({ params: { b: [b] }, x });",
    "model.run({ params: { b: [b] }, y: x, scale: 1 });",
    "model.run({ b: [1] }, x, 1);",
    "model.run(b, x);",
    "model.run(b, x, x, x, x);",
    "model.call({ b: [b], w: x }, x, 2);",
    "model.call({ b: [b] }, x);",
    "model.call({ b: [b, b] }, x, 2);",
    "model.call({ params: { b: [b] }, x });",
    "model.call({ b: [b] }, x, 2).z;",
    "model.call({ b: [b] }, x, 2).sums[1][1];",
    "model.set('params', { b: [b] });",
    "model.set('params', b);",
    "model.set('parms', { w: b });",
    "model.get('params').c;",
    "model.get('x');",
    "model.input('params');",
]


def typescript(folder: Path, options: str, *files: str | Path) -> str:
    """Returns the output of the TypeScript compiler on files."""
    compiler = ROOT / ".tools" / "node_modules" / "typescript" / "bin" / "tsc"
    command = [node_for("relaxed-simd"), compiler, *options.split(), *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200).stdout


def types_checked(folder: Path, *files: str) -> str:
    """Returns the output of the strict TypeScript compiler on files beside models and the loader."""
    libraries = "--target es2022 --lib es2022,dom,dom.iterable --module esnext --moduleResolution bundler"
    return typescript(folder, f"--noEmit --strict --allowJs {libraries}", *files)


def test_types_of_structures(tmp_path: Path) -> None:
    """An artifact of `lower` is typed with the structures of its function; wrong structures are refused."""
    artifact = xla_wasm.compile(lower(f, PARAMS, X, scale=1.0), Options(weights="params.w"))
    javascript.save(artifact, tmp_path / "model.wasm")
    (tmp_path / "right.ts").write_text(TREES)
    head = TREES[: TREES.index("const flat")]
    (tmp_path / "wrong.ts").write_text(head + "\n".join(MISTYPED_TREES))
    said, first = types_checked(tmp_path, "right.ts", "wrong.ts"), head.count("\n") + 1
    assert "right.ts(" not in said and "wrong.ts(" in said, said
    assert [line for i, line in enumerate(MISTYPED_TREES) if f"wrong.ts({first + i}," not in said] == [], said


def everything(first: Any, rest: Any, *, flag: Any) -> Any:
    """Each kind of tree: numbers as keys, objects, nothing, static values, and names that are no identifiers."""
    return {"numbers": {1: first["a b"] + rest[0], 0: None}, "class": Pair(rest[1].then, [first["z"]])}, ()


def test_types_of_every_kind_of_structure(tmp_path: Path) -> None:
    one = np.ones(2, np.float32)
    given = ({"a b": one, "z": np.int32(3), "n": None}, (one, Pair(None, one)))
    module = lower(everything, *given, flag=None)
    kinds = {
        "plain": Options(),
        "weights": Options(weights=["first.*"]),
        "state": Options(state={"first.a b": "0.numbers.1"}),
    }
    for kind, options in kinds.items():
        javascript.save(xla_wasm.compile(module, options), tmp_path / f"{kind}.wasm")
        (tmp_path / f"load_{kind}.ts").write_text(
            f"import {{ load }} from './{kind}.js';\nexport const model = await load();\n"
        )
    (tmp_path / "call.ts").write_text(
        "import { load } from './plain.js';\nconst x = new Float32Array(2);\nconst model = await load();\n"
        "const [made, empty] = model.call({ 'a b': x, z: 3 }, [x, { then: x }], null);\n"
        "const sum: Float32Array = made.numbers[1], none: null = made.numbers[0];\n"
        "const z: Int32Array = made.class.then[0], nothing: [] = empty;\n"
        "console.log(sum, none, z, nothing);\n"
    )
    assert types_checked(tmp_path, "call.ts", *(f"load_{kind}.ts" for kind in kinds)) == ""
