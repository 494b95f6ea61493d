// The worker's side of `load(source, {worker: true})`: one executable, whose methods a page calls by messages;
// remote.js is the other side. With `load(source, {devices: ...})` it is one of several devices; devices/replicated.js
// is the other side of that. And with `threads` it helps an instance in another thread; threads/threads.js starts it.

import { loadHere } from './load.js';
import { pack, unpack } from './messages.js';
import { builtin } from './source.js';

/** @type {any} the page, or the thread that started this one */
const port = builtin('node:worker_threads')?.parentPort ?? globalThis;
/** @type {any} */
let exe;
/** @type {import('./devices/exchange.js').Device | undefined} */
let device;
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
const imported =
  (target) =>
  (/** @type {any[]} */ ...operands) =>
    new Promise((resolve, reject) => {
      const about = operands.pop();
      const moved = /** @type {ArrayBuffer[]} */ ([]);
      asked.set(++calls, { resolve, reject });
      port.postMessage({ call: calls, target, operands: pack(operands, moved, true), about }, moved);
    });

/**
 * Hands an item of a run to the page, or asks it for one.
 * @param {import('./requests/feeds.js').FeedMessage} feed
 */
const passed = (feed) =>
  new Promise((resolve, reject) => {
    const moved = /** @type {ArrayBuffer[]} */ ([]);
    asked.set(++calls, { resolve, reject });
    port.postMessage({ call: calls, feed: { ...feed, item: pack(feed.item, moved, true) } }, moved);
  });

/** @param {{method: string, values: any[], id: number, abortable: boolean, feeds?: [string, string][]}} request */
async function perform({ method, values, id, abortable, feeds }) {
  if (method === 'load') {
    const [source, { customCalls, ...options }] = values;
    const onProgress = (/** @type {any} */ progress) => port.postMessage({ progress });
    exe = await loadHere(source, {
      ...options,
      script: import.meta.url,
      onProgress,
      device,
      customCalls: Object.fromEntries(customCalls.map((/** @type {string} */ target) => [target, imported(target)])),
    });
    return device ? `${exe.manifest.hash} ${exe.manifest.target}` : exe.manifest;
  }
  if (method === 'join') {
    device = await (await import('./devices/member.js')).join(values[0], (exchanged) =>
      port.postMessage({ exchanged }),
    );
    return undefined;
  }
  if (method === 'connect') return device && (await import('./devices/member.js')).connect(device, values[0]);
  const taken = unpack(values);
  const ends =
    feeds &&
    (await import('./requests/feeds.js')).proxies(feeds, (kind, name, item) => passed({ run: id, kind, name, item }));
  if (method === 'replica') return replica(taken[0], taken.slice(1), ends ? [ends] : []);
  if (method !== 'run') return exe[method](...taken);
  if (!abortable && !ends) return exe.manifest.requests.length ? exe.runAsync(...taken) : exe.run(...taken);
  // Options have to follow something.
  return exe.runAsync(...(taken.length ? taken : [{}]), { signal: controllers.get(id)?.signal, ...ends });
}

/**
 * This device's part of a run.
 * @param {number} run its number
 * @param {any[]} values
 * @param {any[]} options
 */
async function replica(run, values, options) {
  const self = /** @type {import('./devices/exchange.js').Device} */ (device);
  self.begin(run);
  try {
    const waits =
      !self.blocks || exe.manifest.requests.some((/** @type {any} */ request) => request.kind !== 'exchange');
    const results = waits ? await exe.runAsync(...values, ...options) : exe.run(...values, ...options);
    await self.transport?.end();
    return results;
  } catch (error) {
    self.transport?.fail();
    throw error;
  }
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
    const { name, message, cause, wait } = /** @type {any} */ (error);
    port.postMessage({ id, error: { name, message, cause: cause && String(cause), wait } });
  } finally {
    controllers.delete(id);
  }
}

port.onmessage = (/** @type {{data: any}} */ { data }) => {
  if (data.memory) {
    import('./threads/thread.js').then(({ help, watch }) => (data.module ? help(data, port) : watch(data)));
  } else if (data.abort !== undefined) {
    controllers.get(data.abort)?.abort();
  } else if (data.over !== undefined) {
    device?.transport?.fail(data.over);
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
