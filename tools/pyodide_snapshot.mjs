// Writes into a folder of Pyodide with the wheel what pages fetch of it: snapshot.bin.zst, the memory of a Python that
// has imported the compiler and compiled a little, from which Python starts in a tenth of the time that importing
// takes; and pyodide.asm.wasm and pyodide.asm.mjs compressed. Their sizes go into the lock file.
//
// The snapshot is as long as its first four bytes say, and the rest is compressed with zstd, which Pyodide's module
// has. What the module's data segments hold already is taken out of it (exclusive or).
//
//     node tools/pyodide_snapshot.mjs dist/pyodide web/demo/playground/examples/gradient.hlo [--quick]
//
// With --quick the files are larger, and made in a few seconds.

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, gzipSync, zstdCompressSync } from 'node:zlib';

const quick = process.argv.includes('--quick');
const [folder, ...sources] = process.argv.slice(2).filter((given) => given !== '--quick');
const place = (/** @type {string} */ name) => resolve(folder, name);
const { loadPyodide } = await import(pathToFileURL(place('pyodide.mjs')).href);
const { default: create } = await import(pathToFileURL(place('pyodide.asm.mjs')).href);
const { without } = await import(new URL('../web/demo/playground/snapshot.js', import.meta.url).href);
/** @type {Uint8Array} */
let segments;
const python = await loadPyodide({
  indexURL: resolve(folder),
  lockFileURL: place('pyodide-lock.json'),
  _makeSnapshot: true,
  // Without docstrings, which nobody reads there.
  env: { PYTHONOPTIMIZE: '2' },
  createPyodideModule: (/** @type {any} */ settings) =>
    create(
      without.watched(settings, (/** @type {Uint8Array} */ memory) => {
        segments = memory;
      }),
    ),
});
const lock = JSON.parse(readFileSync(place('pyodide-lock.json'), 'utf8'));
// Not loadPackage, which leaves objects of JavaScript in Python's hands: a snapshot can hold none.
python.unpackArchive(new Uint8Array(readFileSync(place(lock.packages['xla-wasm'].file_name))), 'wheel');
python.globals.set('sources', JSON.stringify(sources.map((path) => readFileSync(path, 'utf8'))));
python.runPython(`
import encodings.ascii, encodings.latin_1, encodings.utf_8_sig
import gc, importlib, json, pkgutil, re, traceback, types
import xla_wasm
from xla_wasm import XlaWasmError
from xla_wasm.link.link import runtime_functions
from xla_wasm.site.explain import Workbench, failure
from xla_wasm.options import Options

# All that a program may need: the files of the compiler are not there where the snapshot is.
ELSEWHERE = ("command", "server", "jax", "host", "check", "builder", "javascript", "reference", "site", "__main__")
for module in pkgutil.walk_packages(xla_wasm.__path__, "xla_wasm."):
    parts = module.name.split(".")
    if parts[1] not in ELSEWHERE and not re.match("sample|docs|objfile|.*reference", parts[-1]):
        try:
            importlib.import_module(module.name)
        except ImportError:  # it is for hosts that have NumPy
            pass
runtime_functions()  # reads a file
for source in json.loads(sources):
    bench = Workbench(source)
    bench.compile(Options())
    json.dumps(bench.explain(Options()))
    try:
        Workbench(bench.module.to_stablehlo()).compile(Options())
        Workbench("HloModule wrong")
    except XlaWasmError as error:
        failure(error, source)

# Nor does anybody read the numbers of lines.
def bare(code):
    parts = tuple(bare(part) if isinstance(part, types.CodeType) else part for part in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=parts)

for value in gc.get_objects():
    if isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("xla_wasm"):
        value.__code__ = bare(value.__code__)
del sources, source, bench, bare, value, module, parts
gc.collect()
`);
const memory = python.makeMemorySnapshot();
without.segments(memory, segments);
const length = Buffer.alloc(4);
length.writeUInt32LE(memory.length);
const params = { [constants.ZSTD_c_compressionLevel]: quick ? 9 : 19, [constants.ZSTD_c_windowLog]: 26 };
const level = quick ? 3 : 9;
lock.sizes = {};
for (const [name, data] of [
  ['snapshot.bin.zst', Buffer.concat([length, zstdCompressSync(memory, { params })])],
  ['pyodide.asm.wasm.gz', gzipSync(readFileSync(place('pyodide.asm.wasm')), { level })],
  ['pyodide.asm.mjs.gz', gzipSync(readFileSync(place('pyodide.asm.mjs')), { level })],
]) {
  writeFileSync(place(name), data);
  lock.sizes[name] = data.length;
  console.log(`${folder}/${name}: ${(data.length / 1e6).toFixed(1)} MB`);
}
writeFileSync(place('pyodide-lock.json'), `${JSON.stringify(lock, null, 1)}\n`);
