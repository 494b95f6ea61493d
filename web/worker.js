// The worker's side of `load(source, {worker: true})`: one executable, whose methods a page calls by messages; remote.js is the other side.

import { load } from './executor.js';
import { pack, unpack } from './messages.js';
import { builtin } from './source.js';

/** @type {any} the page, or the thread that started this one */
const port = builtin('node:worker_threads')?.parentPort ?? globalThis;
/** @type {any} */
let exe;
/** @type {Map<number, AbortController>} */
const controllers = new Map();
/** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
const asked = new Map();
/** @type {Promise<void>} */
let last = Promise.resolve();
let calls = 0;

/**
 * A function of the page, as one of this worker.
 * @param {string} target
 */
const imported = (target) => (/** @type {any[]} */ ...operands) =>
  new Promise((resolve, reject) => {
    const about = operands.pop();
    const moved = /** @type {ArrayBuffer[]} */ ([]);
    asked.set(++calls, { resolve, reject });
    port.postMessage({ call: calls, target, operands: pack(operands, moved, true), about }, moved);
  });

/** @param {{method: string, values: any[], id: number, abortable: boolean}} request */
async function perform({ method, values, id, abortable }) {
  if (method === 'load') {
    const [source, { customCalls, ...options }] = values;
    const onProgress = (/** @type {any} */ progress) => port.postMessage({ progress });
    exe = await load(source, { ...options, onProgress, customCalls: Object.fromEntries(customCalls.map((/** @type {string} */ target) => [target, imported(target)])) });
    return exe.manifest;
  }
  const taken = unpack(values);
  if (method !== 'run') return exe[method](...taken);
  if (!abortable) return exe.manifest.requests.length ? exe.runAsync(...taken) : exe.run(...taken);
  // Options have to follow something.
  return exe.runAsync(...(taken.length ? taken : [{}]), { signal: controllers.get(id)?.signal });
}

/** @param {{id: number}} request */
async function answer(request) {
  const { id } = request;
  try {
    const value = await perform(/** @type {any} */ (request));
    const moved = /** @type {ArrayBuffer[]} */ ([]);
    const isData = /** @type {any} */ (request).method === 'load' || /** @type {any} */ (request).method === 'profile';
    port.postMessage({ id, value: isData ? value : pack(value, moved, true) }, moved);
  } catch (error) {
    const { name, message, cause } = /** @type {Error} */ (error);
    port.postMessage({ id, error: { name, message, cause: cause && String(cause) } });
  } finally {
    controllers.delete(id);
  }
}

port.onmessage = (/** @type {{data: any}} */ { data }) => {
  if (data.abort !== undefined) {
    controllers.get(data.abort)?.abort();
  } else if (data.answer !== undefined) {
    const { resolve, reject } = /** @type {any} */ (asked.get(data.answer));
    asked.delete(data.answer);
    if (data.error) reject(new Error(data.error));
    else resolve(unpack(data.value));
  } else {
    if (data.abortable) controllers.set(data.id, new AbortController());
    last = last.then(() => answer(data));
  }
};
