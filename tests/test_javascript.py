"""What a forged artifact may put into the `model.js` and `model.d.ts` made for it: names, as text, and nothing that runs."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures import toy_manifest
from node_host import ROOT, node_for

from xla_wasm import ArtifactError, javascript
from xla_wasm.artifact import Artifact

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
LOADER = "export class UnsupportedError extends Error {}\nexport const load = () => undefined, joined = () => undefined;\n"
SHOW = """
import { inputs, results } from './model.js';
const prototypes = [inputs, results].map((table) => Object.getPrototypeOf(table) === Object.prototype);
console.log(JSON.stringify({ inputs: Object.keys(inputs), results: Object.keys(results), prototypes, forged: globalThis.forged ?? null }));
"""
# What a manifest may hold in the place of what belongs there, and what is said of it.
FORGED: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "code as a dimension": (("parameters", 0, "dimensions"), [f"({CODE}, 2)", 3], r"at parameters\[0\].dimensions"),
    "code as a dimension of a result": (("results", 0, "dimensions"), [f"({CODE}, 2)", 3], r"at results\[0\].dimensions"),
    "true as a dimension": (("parameters", 0, "dimensions"), [True, 3], r"at parameters\[0\].dimensions"),
    "a dimension below none": (("parameters", 0, "dimensions"), [-1, 3], r"at parameters\[0\].dimensions"),
    "code as a type": (("parameters", 0, "element_type"), f"f32*/ {CODE} /*", r"at parameters\[0\].element_type"),
    "code as a size": (("parameters", 0, "sizes"), [f"*/ {CODE} /*", None], r"at parameters\[0\].sizes"),
    "a list as a name": (("parameters", 0, "name"), [CODE], r"at parameters\[0\].name"),
    "a list as the producer": (("producer",), [CODE], "at producer"),
    "no producer": (("producer",), None, "at producer"),
    "a number as the name": (("name",), 3, "at name"),
    "another kind": (("parameters", 0, "kind"), "inputs", r"at parameters\[0\].kind"),
    "no parameters": (("parameters",), {}, "at parameters"),
    "code as the pages": (("pages",), CODE, "at pages"),
}


def forged(path: tuple[str | int, ...], value: Any) -> Artifact:
    manifest = toy_manifest()
    place: Any = manifest
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return Artifact(b"", manifest, b"weights")


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
        assert all(char.isprintable() for line in (head, *rest) for char in line), "nothing that editors and terminals act upon"
    script = files[0].read_text(encoding="utf-8").replace("import wasm from './model.wasm';", "const wasm = undefined;")
    files[0].write_text(script.replace("./loader.js/parts.js", "./loader.js"), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "loader.js").write_text(LOADER)
    (tmp_path / "show.js").write_text(SHOW)
    done = subprocess.run([node_for("simd128"), "show.js"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"inputs": NAMES, "results": NAMES, "prototypes": [True, True], "forged": None}
    compiler = ROOT / ".tools" / "node_modules" / "typescript" / "bin" / "tsc"
    command = [node_for("relaxed-simd"), compiler, "--noEmit", "--strict", "--module", "esnext", "--target", "es2022", files[1]]
    said = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout
    assert [line for line in said.splitlines() if "error TS2307" not in line and "error TS7016" not in line] == []


def test_the_whole_loader_is_copied(tmp_path: Path) -> None:
    """Every file of the JavaScript host, in its folder; the demo pages are not part of it."""
    web = ROOT / "web"
    files = {path.relative_to(web) for path in web.rglob("*.js") if path.relative_to(web).parts[0] != "demo"}
    copied = javascript.copy_loader(tmp_path)
    assert {path.relative_to(copied) for path in copied.rglob("*.js")} == files
