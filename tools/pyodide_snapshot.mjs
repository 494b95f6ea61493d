// Writes into a folder of Pyodide with the wheel snapshot.bin.zst: the memory of a Python that has imported the compiler
// and compiled a little, from which Python starts in a tenth of the time that importing takes. Its sizes go into the
// lock file.
//
// It is compressed with zstd, which Pyodide's module has. What the module's data segments hold already is taken out of
// it (exclusive or), and memory that is free is zero.
//
//     node tools/pyodide_snapshot.mjs dist/pyodide web/demo/playground/examples/gradient.hlo [--quick]
//
// With --quick the file is larger, and made in a few seconds.

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, zstdCompressSync } from 'node:zlib';

const PROBE = 2 << 20; // bytes, more than any hole

/**
 * Fills with zeros what is free in a module's memory, a quarter of a snapshot otherwise: all that it gives, the largest
 * pieces first, up to where nothing lies yet.
 * @param {any} module of Pyodide
 */
function zeroFree(module) {
  const end = module.HEAPU8.length;
  const top = module._malloc(PROBE);
  module.HEAPU8.fill(0, top, top + PROBE);
  module.HEAPU8.fill(0, Math.min(end, top + PROBE + 16), end); // but for the head of what is left
  module._free(top);
  const held = [];
  for (let size = PROBE >> 1; size >= 8; size = size > 256 ? size >> 1 : size - 8) {
    let at = module._malloc(size);
    for (; at < top; at = module._malloc(size)) {
      module.HEAPU8.fill(0, at, at + size);
      held.push(at);
    }
    module._free(at);
  }
  for (const at of held) module._free(at);
}

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
def load(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        parts = found.name.split(".")
        if parts[1] in ELSEWHERE or re.match("sample|docs|objfile|.*reference", parts[-1]):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # it is for hosts that have NumPy
            continue
        if found.ispkg:
            load(module)

load(xla_wasm)
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

# Nor does anybody read the numbers of lines, the types of parameters, and where a function is defined.
def bare(code):
    parts = tuple(bare(part) if isinstance(part, types.CodeType) else part for part in code.co_consts)
    return code.replace(co_linetable=b"", co_qualname=code.co_name, co_consts=parts)

for value in gc.get_objects():
    if isinstance(value, types.FunctionType):
        value.__code__ = bare(value.__code__)
        value.__qualname__ = value.__name__
        if (value.__module__ or "").startswith("xla_wasm"):
            value.__annotations__ = value.__annotate__ = None
del sources, source, bench, bare, value, load
gc.collect()
`);
zeroFree(python._module);
const memory = python.makeMemorySnapshot();
without.segments(memory, segments);
const params = { [constants.ZSTD_c_compressionLevel]: quick ? 9 : 19, [constants.ZSTD_c_windowLog]: 26 };
const packed = zstdCompressSync(memory, { params });
writeFileSync(place('snapshot.bin.zst'), packed);
Object.assign(lock.sizes, { 'snapshot.bin': memory.length, 'snapshot.bin.zst': packed.length });
for (const [name, size] of Object.entries(lock.sizes)) console.log(`${folder}/${name}: ${(size / 1e6).toFixed(2)} MB`);
writeFileSync(place('pyodide-lock.json'), `${JSON.stringify(lock, null, 1)}\n`);
