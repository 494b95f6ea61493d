// The worker that compiles: Pyodide with the xla_wasm wheel, from files beside the page. Python stays here, so the page
// stays quick.

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

/** Counts what Pyodide fetches, so that the page can show how far it is. */
function countFetches() {
  const fetchIt = scope.fetch.bind(scope);
  let [loaded, total, said] = [0, 0, 0];
  scope.fetch = async (/** @type {any} */ url, /** @type {any} */ options) => {
    const response = await fetchIt(url, options);
    const size = Number(response.headers.get('Content-Length'));
    if (!response.ok || !response.body || !size) return response;
    total += size;
    const counter = new TransformStream({
      transform(chunk, controller) {
        loaded += chunk.byteLength;
        if (loaded - said > 200_000 || loaded === total) {
          said = loaded;
          scope.postMessage({ kind: 'progress', loaded, total });
        }
        controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(counter), { status: response.status, headers: response.headers });
  };
}

/**
 * The memory of a Python that has imported the compiler, as tools/pyodide_snapshot.mjs made it; a folder may be
 * without.
 */
async function fetchSnapshot() {
  const response = await fetch(`${FOLDER}snapshot.bin.gz`);
  if (!response.ok || !response.body) return undefined;
  return new Uint8Array(await new Response(response.body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
}

/** Options of Pyodide. @param {Uint8Array} snapshot */
const from = (snapshot) => ({
  _loadSnapshot: snapshot,
  createPyodideModule: async (/** @type {object} */ settings) => {
    const { default: create } = await import(`${FOLDER}pyodide.asm.mjs`);
    const made = await create(settings);
    // It begins with less memory than the snapshot has, and would not grow by itself.
    made.growMemory(snapshot.length);
    return made;
  },
});

/** @param {Record<string, {file_name: string, sha256: string}>} packages */
async function fetchWheel(packages) {
  const name = packages['xla-wasm']?.file_name;
  const response = name ? await fetch(`${FOLDER}${name}`) : undefined;
  if (!response?.ok) throw new Error(`the lock file in ${FOLDER} names no wheel of xla-wasm that is there`);
  return response.arrayBuffer();
}

async function start() {
  const answer = await fetch(`${FOLDER}pyodide-lock.json`).catch((error) => {
    throw new Error(`${FOLDER} cannot be reached: ${error.message}`);
  });
  if (!answer.ok) {
    throw new Error(
      `the compiler needs Pyodide at ${FOLDER}, and it is not there (HTTP ${answer.status}): ./build.sh ` +
        `pyodide makes it`,
    );
  }
  const { packages } = await answer.json();
  countFetches();
  const [{ loadPyodide }, snapshot, wheel] = await Promise.all([
    import(`${FOLDER}pyodide.mjs`),
    fetchSnapshot(),
    fetchWheel(packages),
  ]);
  const python = await loadPyodide({
    indexURL: FOLDER,
    lockFileURL: `${FOLDER}pyodide-lock.json`,
    ...(snapshot && from(snapshot)),
  });
  // The memory of Python has its modules; their files it may still want.
  python.unpackArchive(wheel, 'wheel');
  const others = Object.keys(packages).filter((name) => ['numpy', 'ml-dtypes', 'ml_dtypes'].includes(name));
  if (others.length) await python.loadPackage(others, { messageCallback: () => {} });
  python.runPython(PYTHON);
  const lacking = ['numpy', 'ml_dtypes'].filter((name) =>
    python.runPython(`import importlib.util as u; u.find_spec("${name}") is None`),
  );
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
