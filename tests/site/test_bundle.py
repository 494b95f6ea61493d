"""Modules of JavaScript as one script: it does what they do, and what cannot be bundled is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.node_host import node_for
from tests.support.processes import output
from xla_wasm.site import bundle, pages

MODULES = {
    "a/entry.js": """\
// import { nothing } from './nothing.js';
import './first.js';
import { add, text as said } from '../deep.js';
import {
  Counter,
  order,
} from '../shared.js';

/** @typedef {import('./nothing.js').Type} Type */
/** @type {(name: string) => Promise<any>} */
const load = (/** @type {string} */ name) => (name === 'left' ? import('../left.js') : import('../late.js'));
order.push('entry'); // a remark
await_(load);
async function await_(/** @type {any} */ f) {
  const made = [await f('late'), await f('late'), await f('left')];
  order.push(made[0] === made[1], made[0].late(), made[2].left);
  console.log(JSON.stringify([order, add(1, 2), said, new Counter().next().value]));
}
""",
    "a/first.js": "import { order } from '../shared.js';\n\norder.push('first');\n",
    "deep.js": """\
import { order } from './shared.js';

/**
 * Adds.
 * @param {number} x
 */
export function add(x, /** @type {number} */ y) {
  return x + y;
}
export const text = "/* it's */ // export";
order.push('deep');
""",
    "shared.js": """\
export const order = [];
export class Counter {
  next() {
    return count().next();
  }
}
export function* count() {
  yield 7;
}
""",
    "late.js": "import { order } from './shared.js';\n\norder.push('late');\nexport const late = () => 'later';\n",
    "left.js": "export const left = import.meta.url.endsWith('left.js');\n",
}


def written(folder: Path, modules: dict[str, str]) -> Path:
    for name, text in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def test_it_does_what_the_modules_do(tmp_path: Path) -> None:
    root = written(tmp_path, MODULES)
    node = node_for("relaxed-simd")
    wanted = output([node, root / "a" / "entry.js"])
    script = bundle.bundle(root / "a" / "entry.js", root, without=("left.js",))
    (root / "a" / "script.js").write_text(script)
    for name in ("a/first.js", "a/entry.js", "deep.js", "shared.js", "late.js"):
        (root / name).unlink()
    assert output([node, root / "a" / "script.js"]) == wanted
    assert wanted.strip() == '[["first","deep","entry","late",true,"later",true],3,"/* it\'s */ // export",7]'


@pytest.mark.parametrize(
    "text",
    [
        *(
            "export default 1;",
            "export * from './b.js';",
            "export { b } from './b.js';",
            "import * as b from './b.js';",
        ),
        *("import b from './b.js';", "import { b } from 'b';", "const b = await 1;", "await 1;", "export let b = 1;"),
        "export const { b } = { b: 1 };",
    ],
)
def test_other_forms_are_refused(tmp_path: Path, text: str) -> None:
    root = written(tmp_path, {"a.js": f"{text}\n", "b.js": "export const b = 1;\n"})
    with pytest.raises(ValueError, match=re.escape(f"a.js: no form that can be bundled: {text}")):
        bundle.bundle(root / "a.js", root)


def test_the_worker_fetches_only_what_starts_workers() -> None:
    script = pages.made("/demo/workers/worker.js")
    assert script is not None
    assert set(re.findall(rb"import\('(.*?)'\)", script)) == {b"../../remote.js", b"../../devices/replicated.js"}
    assert b"/**" not in script
