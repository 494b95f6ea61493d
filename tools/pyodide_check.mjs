// Whether the wheel is fit for Pyodide: it loads from the lock file by name, imports without numpy, and compiles a
// module to the bytes that CPython makes of it.
//
//     node tools/pyodide_check.mjs dist/pyodide examples/digits/digits.hlo.pb SHA256

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, model, expected] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, 'pyodide.mjs')).href);
const python = await loadPyodide({ indexURL: resolve(folder), lockFileURL: resolve(folder, 'pyodide-lock.json') });
await python.loadPackage('xla-wasm', { messageCallback: () => {} });
if (!python.loadedPackages['xla-wasm']) throw new Error('loadPackage found no xla-wasm in the lock file');
python.globals.set('js_image', new Float32Array(64));
python.globals.set('data', new Uint8Array(readFileSync(model)));
const [sha, numpy] = python
  .runPython(
    `
import hashlib, sys
import xla_wasm
artifact = xla_wasm.compile(xla_wasm.HloModule.from_proto(data.to_bytes()))
xla_wasm.load(artifact).run(js_image)
[hashlib.sha256(artifact.wasm).hexdigest(), "numpy" in sys.modules]
`,
  )
  .toJs();
if (sha !== expected) throw new Error(`Pyodide compiled ${model} to other bytes than CPython: ${sha}, not ${expected}`);
console.log(
  `fit for Pyodide ${python.version}: the same bytes as CPython's, and it ` +
    `runs${numpy ? ', with numpy' : ', without numpy'}`,
);
