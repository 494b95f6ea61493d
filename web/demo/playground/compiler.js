// The worker that compiles: Pyodide with the xla_wasm wheel, from files beside the page. Python stays here, so the page
// stays quick.

import { startFrom } from './snapshot.js';

const FOLDER = new URL('../../pyodide/', import.meta.url).href;
const scope = /** @type {any} */ (self);

const PYTHON = `
import json
from xla_wasm import XlaWasmError
from xla_wasm.errors import UnsupportedError
from xla_wasm.site.explain import Workbench, failure
from xla_wasm.options import Options

bench = None

def read_and_compile(source, sizes, target):
    global bench
    bench = None
    data = source if isinstance(source, str) else source.to_bytes()
    text = source if isinstance(source, str) else ""
    try:
        made = Workbench(data, sizes)
        text = made.text
        artifact = made.compile(Options(target=target))
        bench = made
        return json.dumps({"text": text, "weights": len(artifact.weights)}), artifact.wasm
    except XlaWasmError as error:
        return json.dumps({"text": text, "failure": failure(error, text)}), None
    except RecursionError:
        wrong = {"kind": "LimitError", "message": "the module is nested too deeply", "line": None, "column": None, "sizes": ""}
        return json.dumps({"text": text, "failure": wrong}), None

def explain(target):
    return json.dumps(bench.explain(Options(target=target)))

def compare(inputs, outputs):
    try:
        rows = bench.compare([x.to_bytes() for x in inputs], [x.to_bytes() for x in outputs])
        return json.dumps({"rows": rows}, allow_nan=True)
    except XlaWasmError as error:
        return json.dumps({"failure": str(error)})
`;

/**
 * Python asks for a module that the snapshot has not: the files of the standard library and of the wheel come then,
 * while it waits. Most programs need none.
 */
const LATE = `
import importlib, sys
from importlib.machinery import PathFinder

class Late:
    there = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        if not cls.there and (top in sys.stdlib_module_names or top == "xla_wasm"):
            cls.there = True
            fetch_files(next(path for path in sys.path if path.endswith(".zip")))
            importlib.invalidate_caches()

sys.meta_path.insert(sys.meta_path.index(PathFinder), Late)
`;

/**
 * Whether the snapshot fits this engine. Pyodide's table of functions is another one where there are no promises in
 * WebAssembly, as in WebKit; there Python starts from its files.
 */
const IS_LIKE_THE_MAKERS = 'Suspending' in WebAssembly;
const EMPTY_ZIP = Uint8Array.of(0x50, 0x4b, 5, 6, ...new Array(18).fill(0));

/** @param {string} name @returns {ArrayBuffer} */
function fetchNow(name) {
  const request = new XMLHttpRequest();
  request.open('GET', `${FOLDER}${name}`, false);
  request.responseType = 'arraybuffer';
  request.send();
  if (request.status !== 200) throw new Error(`${name} of Pyodide answers HTTP ${request.status}`);
  return request.response;
}

/**
 * Replaces `fetch` for Pyodide: of its module comes the compressed file, and no standard library with a snapshot. What
 * comes is counted, so that the page can show how far it is. Gives the answer with the snapshot, if there is one.
 * @param {Promise<Record<string, number>>} known sizes of the files that come compressed, by name: they are asked for
 * before these are there
 */
async function fetchFiles(known) {
  const fetchIt = scope.fetch.bind(scope);
  const [module, memory] = ['pyodide.asm.wasm.gz', 'snapshot.bin.zst'];
  const names = IS_LIKE_THE_MAKERS ? [module, memory] : [module];
  const asked = new Map(names.map((name) => [name, fetchIt(`${FOLDER}${name}`).catch(() => undefined)]));
  const sizes = await known;
  const total = names.reduce((sum, name) => sum + (sizes[name] ?? 0), 0);
  let [loaded, said] = [0, 0];
  /** @param {string} name @returns {Promise<Response | undefined>} */
  const counted = async (name) => {
    const { ok, body } = (await asked.get(name)) ?? {};
    if (!sizes[name] || !ok || !body) return undefined;
    const counter = new TransformStream({
      transform(chunk, controller) {
        loaded += chunk.byteLength;
        if (loaded - said > 100_000 || loaded === total) scope.postMessage({ kind: 'progress', loaded, total });
        if (loaded - said > 100_000) said = loaded;
        controller.enqueue(chunk);
      },
    });
    return new Response(body.pipeThrough(counter));
  };
  const packed = counted(module);
  const snapshot = await counted(memory);
  scope.fetch = async (/** @type {any} */ url, /** @type {any} */ options) => {
    const { pathname } = new URL(url.url ?? url, FOLDER);
    if (snapshot && pathname.endsWith('/python_stdlib.zip')) return new Response(EMPTY_ZIP);
    const body = pathname.endsWith('/pyodide.asm.wasm') && (await packed)?.body;
    if (!body) return fetchIt(url, options);
    const plain = body.pipeThrough(new DecompressionStream('gzip'));
    return new Response(plain, { headers: { 'Content-Type': 'application/wasm' } });
  };
  return snapshot;
}

/** @param {Response} answer */
const bytesOf = async (answer) => new Uint8Array(await answer.arrayBuffer());

async function fetchLock() {
  const answer = await fetch(`${FOLDER}pyodide-lock.json`).catch((error) => {
    throw new Error(`${FOLDER} cannot be reached: ${error.message}`);
  });
  if (!answer.ok) {
    throw new Error(
      `the compiler needs Pyodide at ${FOLDER}, and it is not there (HTTP ${answer.status}): ./build.sh ` +
        `pyodide makes it`,
    );
  }
  const text = await answer.text();
  const { packages, sizes = {} } = JSON.parse(text);
  if (!packages['xla-wasm']) throw new Error(`the lock file in ${FOLDER} names no wheel of xla-wasm`);
  return { text, packages, sizes };
}

async function start() {
  const lock = fetchLock();
  const [{ loadPyodide }, snapshot] = await Promise.all([
    import(`${FOLDER}pyodide.mjs`),
    fetchFiles(lock.then(({ sizes }) => sizes)),
    import(`${FOLDER}pyodide.asm.mjs`),
  ]).catch(async (error) => {
    await lock; // which says more
    throw error;
  });
  const { text, packages, sizes } = await lock;
  const wheel = packages['xla-wasm'].file_name;
  const python = await loadPyodide({
    indexURL: FOLDER,
    lockFileContents: text,
    packageBaseUrl: FOLDER,
    ...(snapshot && startFrom(bytesOf(snapshot), sizes['snapshot.bin'], FOLDER)),
  });
  const unpack = () => python.unpackArchive(fetchNow(wheel), 'wheel');
  if (snapshot) {
    python.globals.set('fetch_files', (/** @type {string} */ library) => {
      python.FS.writeFile(library, new Uint8Array(fetchNow('python_stdlib.zip')));
      unpack();
    });
    python.runPython(LATE);
  } else unpack();
  const others = Object.keys(packages).filter((name) => ['numpy', 'ml-dtypes', 'ml_dtypes'].includes(name));
  if (others.length) await python.loadPackage(others, { messageCallback: () => {} });
  python.runPython(PYTHON);
  const lacking = ['numpy', 'ml_dtypes'].filter((name) => !others.some((other) => other.replace('-', '_') === name));
  return { python, version: python.runPython('import sys; sys.version.partition(" ")[0]'), lacking };
}

const ready = start();
ready.then(
  ({ version, lacking }) => scope.postMessage({ kind: 'ready', version, lacking }),
  (error) => scope.postMessage({ kind: 'broken', message: String(error?.message ?? error) }),
);

scope.onmessage = async (/** @type {MessageEvent} */ { data }) => {
  const { python } = await ready;
  const { id, kind } = data;
  const call = (/** @type {string} */ name, /** @type {any[]} */ ...values) => python.globals.get(name)(...values);
  try {
    if (kind === 'compile') {
      const begin = performance.now();
      const pair = call('read_and_compile', data.source, data.sizes, data.target);
      const milliseconds = performance.now() - begin;
      const bytes = pair.get(1);
      const wasm = bytes?.toJs();
      const told = JSON.parse(pair.get(0));
      bytes?.destroy();
      pair.destroy();
      scope.postMessage({ id, ...told, wasm, milliseconds });
    } else if (kind === 'explain') scope.postMessage({ id, ...JSON.parse(call('explain', data.target)) });
    else
      scope.postMessage({
        id,
        ...JSON.parse(call('compare', data.inputs, data.outputs).replace(/\b(NaN|-?Infinity)\b/g, 'null')),
      });
  } catch (error) {
    const lines = String(/** @type {Error} */ (error).message)
      .trim()
      .split('\n');
    scope.postMessage({
      id,
      failure: { kind: 'InternalError', message: lines[lines.length - 1], line: null, column: null, sizes: '' },
    });
  }
};
