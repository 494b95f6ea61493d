// Writes snapshot.bin.gz into a folder of Pyodide with the wheel: the memory of a Python that has imported the compiler
// and compiled a little. Python starts from it in a tenth of the time that importing takes, since nothing has to be
// parsed.
//
//     node tools/pyodide_snapshot.mjs dist/pyodide web/demo/playground/examples/gradient.hlo

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

const [folder, ...sources] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, 'pyodide.mjs')).href);
const python = await loadPyodide({
  indexURL: resolve(folder),
  lockFileURL: resolve(folder, 'pyodide-lock.json'),
  _makeSnapshot: true,
});
const { packages } = JSON.parse(readFileSync(resolve(folder, 'pyodide-lock.json'), 'utf8'));
// Not loadPackage, which leaves objects of JavaScript in Python's hands: a snapshot can hold none.
python.unpackArchive(new Uint8Array(readFileSync(resolve(folder, packages['xla-wasm'].file_name))), 'wheel');
python.globals.set('sources', JSON.stringify(sources.map((path) => readFileSync(path, 'utf8'))));
python.runPython(`
import gc, json
from xla_wasm import XlaWasmError
from xla_wasm.site.explain import Workbench, failure
from xla_wasm.options import Options
for source in json.loads(sources):
    bench = Workbench(source)
    bench.compile(Options())
    json.dumps(bench.explain(Options()))
    try:
        Workbench(bench.module.to_stablehlo()).compile(Options())
        Workbench("HloModule wrong")
    except XlaWasmError as error:
        failure(error, source)
del sources, source, bench
gc.collect()
`);
const snapshot = gzipSync(python.makeMemorySnapshot(), { level: 9 });
writeFileSync(resolve(folder, 'snapshot.bin.gz'), snapshot);
console.log(`${folder}/snapshot.bin.gz: ${(snapshot.length / 1e6).toFixed(1)} MB`);
