// Threads: a module with a shared memory, and the workers that help the one that runs it. Mirrors
// xla_wasm/host/thread_pool.py.

import { counted } from '../arrays.js';
import { ArgumentError, LimitError } from '../errors.js';
import { Fields } from '../manifest.js';
import { THREADS } from '../manifest_fields.js';
import { builtin, file, hints } from '../source.js';
import { late } from '../limits/budget.js';
import { hasLocks } from './locks.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

const PAGE = 65536;
const MOST_PAGES = 65536;
const MOST_THREADS = 1024;
/** The words of the control block that hosts write: see `CONTROL_BYTES` in xla_wasm/target.py. */
const FAILED = 136 / 4;
const LOOKS = 72 / 4;
const AWAKE = 140 / 4;
const LIMIT = 156 / 4;
const LATE = 2 ** 30;
const RESTARTS = 3;
const PATIENCE = 10_000; // milliseconds for workers to start

/** True once the console has said that threads are out of reach. */
let warned = false;

/** How many threads can run at once. */
const processors = () => builtin('node:os')?.availableParallelism?.() ?? globalThis.navigator?.hardwareConcurrency ?? 1;

/** Returns true if this thread may wait: the main thread of a page may not. @param {Int32Array} words */
function mayWait(words) {
  try {
    Atomics.wait(words, AWAKE, 1, 0);
    return true;
  } catch {
    return false;
  }
}

/** Why there can be one thread only, if that is so. */
function lackOfThreads() {
  if (!builtin('node:worker_threads') && typeof Worker === 'undefined') return 'there are no workers here';
  if (globalThis.crossOriginIsolated === false)
    return (
      'more need a page that is cross-origin isolated, so serve it with the headers Cross-Origin-Opener-Policy: ' +
      'same-origin and Cross-Origin-Embedder-Policy: require-corp'
    );
  // As in WebKitGTK, where such a page can have shared memory of WebAssembly, but send it to nobody.
  return typeof SharedArrayBuffer === 'undefined' ? 'this browser has no shared memory' : '';
}

/**
 * How many threads a run has.
 * @param {Manifest} manifest
 * @param {{threads?: number, untrusted?: boolean, device?: import('../devices/exchange.js').Device}} options
 */
function count(manifest, { threads, untrusted, device }) {
  if (threads !== undefined && !(Number.isSafeInteger(threads) && threads > 0))
    throw new ArgumentError(`threads is a whole number above zero, got ${threads}`);
  if (manifest.threads == null) {
    if (threads && threads > 1)
      throw new ArgumentError(`'${manifest.name}' is compiled for one thread: compile it with --threads`);
    return 1;
  }
  const most = Math.min(
    1 + Math.floor((MOST_PAGES * PAGE - manifest.memoryBytes) / manifest.threads.bytes) || 1,
    MOST_THREADS,
  );
  if (threads && threads > most)
    throw new ArgumentError(`'${manifest.name}' has room for at most ${counted(most, 'thread')}, not ${threads}`);
  if (untrusted) return 1;
  const wanted = Math.min(threads ?? (Math.floor(processors() / (device?.grid.count ?? 1)) || 1), most);
  const lacks = wanted > 1 && lackOfThreads();
  if (lacks) {
    if (!warned) console.warn(`'${manifest.name}' runs on one thread: ${lacks}`);
    warned = true;
    return 1;
  }
  return wanted;
}

/**
 * An instance of the module with its memory.
 * @param {WebAssembly.Module} module
 * @param {Manifest} manifest
 * @param {{threads?: number, untrusted?: boolean, device?: import('../devices/exchange.js').Device, script?: string,
 *   timeout?: number}} options
 */
export async function instantiate(module, manifest, options) {
  const item = new Fields(manifest.threads ?? {}, 'threads', THREADS);
  const threads = count(manifest, options);
  const control = item.address('control', manifest.memoryBytes);
  const pages = Math.ceil(
    (manifest.memoryBytes + (threads - 1) * item.int('bytes', { high: manifest.memoryBytes })) / PAGE,
  );
  let memory;
  try {
    memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch (error) {
    throw new LimitError(
      `no room for ${pages * PAGE} bytes of shared memory: ${/** @type {Error} */ (error).message}; load it with ` +
        `fewer threads`,
      { cause: error },
    );
  }
  let exports;
  try {
    ({ exports } = await WebAssembly.instantiate(module, { host: { memory } }));
  } catch (error) {
    throw (await hints()).notStarted(error, manifest);
  }
  const words = new Int32Array(memory.buffer, control, 64);
  if (!mayWait(words)) words[AWAKE] = 1;
  const { timeout } = options;
  // Nothing else ends the waiting for a chunk in this thread.
  if (timeout) words[LIMIT] = Math.min(Math.ceil(timeout * 10), LATE);
  if (threads === 1) return { manifest, instance: { exports } };
  const { run, init, step, stop } = /** @type {any} */ (exports);
  const pool = new ThreadPool(
    { module, memory, control },
    threads - 1,
    [manifest.memoryBytes, item.int('bytes', { high: manifest.memoryBytes })],
    words,
    stop,
    options.script,
  );
  await pool.start();
  /** @type {unknown} */
  let over;
  const told = (/** @type {(argument?: number) => number} */ call) => (/** @type {number} */ argument) => {
    if (over) throw over;
    words[LOOKS] = 0;
    try {
      return call(argument);
    } catch (error) {
      const { failure } = pool;
      const isLate = words[FAILED] === LATE;
      pool.end();
      if (isLate)
        over = late(
          `a call of '${manifest.name}'`,
          /** @type {number} */ (timeout),
          '; load it again, with a longer timeout',
        );
      else over = failure ? new Error(failure, { cause: error }) : error;
      throw over;
    }
  };
  // `dispose` has it grow by nothing.
  const seen = { buffer: memory.buffer, grow: () => pool.end() };
  return { manifest, instance: { exports: { memory: seen, run: told(run), init: told(init), step: told(step) } } };
}

/**
 * Starts a worker of worker.js.
 * @param {string} [script] its address, if this runs in such a worker
 * @returns {Promise<any>}
 */
async function startWorker(script) {
  if (!script) return (await file('remote', () => import('../remote.js'))).start(true);
  const Thread = builtin('node:worker_threads')?.Worker;
  if (Thread) return new Thread(new URL(script));
  try {
    return new Worker(script, { type: 'module' });
  } catch {
    // A worker's script must be of the page's origin, what it imports need not be.
    const blob = new Blob([`import ${JSON.stringify(script)};`], { type: 'text/javascript' });
    return new Worker(URL.createObjectURL(blob), { type: 'module' });
  }
}

/** The workers that help one instance. */
export class ThreadPool {
  #shared;
  #places;
  #words;
  #stop;
  #script;
  #workers;
  /**
   * Hears when one of them ends, which this thread does not while it runs the program.
   * @type {Promise<any> | undefined}
   */
  #watcher;
  #restarts = 0;
  #ended = false;

  /**
   * @param {{module: WebAssembly.Module, memory: WebAssembly.Memory, control: number}} shared what each is started with
   * @param {number} count
   * @param {[number, number]} places where the memory of the first begins, and how many bytes each has
   * @param {Int32Array} words the control block
   * @param {() => void} stop has them end
   * @param {string} [script]
   */
  constructor(shared, count, places, words, stop, script) {
    this.#shared = shared;
    this.#places = places;
    this.#words = words;
    this.#stop = stop;
    this.#script = script;
    /** @type {any[]} */
    this.#workers = Array.from({ length: count });
  }

  /**
   * Starts all; resolves when they are there, or when it is clear that some will not be: then the others do their work.
   */
  async start() {
    /** @type {any} */
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE)));
    await Promise.race([Promise.all(this.#workers.map((_, i) => this.#start(i))), late]);
    clearTimeout(timer);
  }

  /** @param {number} i */
  async #start(i) {
    let worker;
    try {
      worker = await startWorker(this.#script);
    } catch {
      return; // the others do its work
    }
    if (this.#ended) return worker.terminate();
    this.#workers[i] = worker;
    const number = i + 1;
    const lock = hasLocks() ? `xla-wasm ${crypto.randomUUID()}` : undefined;
    const { port1, port2 } = lock ? {} : new MessageChannel();
    const begun = new Promise((resolve) => {
      const hear = (/** @type {any} */ said) => {
        if (said !== 'ready') return;
        this.#watch({ number, lock, end: port2 });
        resolve(undefined);
      };
      const lost = () => {
        resolve(undefined);
        if (this.#workers[i] !== worker || this.#ended || this.#failed) return;
        this.#workers[i] = undefined;
        worker.terminate();
        if (++this.#restarts <= RESTARTS) this.#start(i);
      };
      if (worker.on) {
        worker.on('message', hear).on('error', lost).on('exit', lost);
        worker.unref();
      } else {
        worker.onmessage = (/** @type {MessageEvent} */ { data }) => hear(data);
        worker.onerror = (/** @type {Event} */ event) => (event.preventDefault(), lost());
      }
    });
    worker.postMessage({ ...this.#shared, number, lock, end: port1 }, port1 ? [port1] : []);
    await begun;
  }

  /**
   * Has the end of a worker noticed though this thread computes.
   * @param {{number: number, lock?: string, end?: MessagePort}} what is to be noticed
   */
  async #watch(what) {
    this.#watcher ??= startWorker(this.#script).catch(() => undefined);
    const watcher = await this.#watcher;
    if (this.#ended || !watcher) return watcher?.terminate();
    watcher.unref?.();
    const { memory, control } = this.#shared;
    const [first, bytes] = this.#places;
    watcher.postMessage(
      { memory, control, own: first + (what.number - 1) * bytes, ...what },
      what.end ? [what.end] : [],
    );
  }

  get #failed() {
    return Atomics.load(this.#words, FAILED) !== 0;
  }

  /** The message of the error that ended a thread; empty if none has failed. */
  get failure() {
    const number = Atomics.load(this.#words, FAILED);
    if (!number) return '';
    if (number < 0)
      return (
        `thread ${-number} of ${this.#workers.length + 1} was ended while it computed: load it again, and if ` +
        `memory is short, with fewer threads`
      );
    const { memory, control } = this.#shared;
    return (
      new TextDecoder().decode(new Uint8Array(memory.buffer, control + 160, 96).slice()).replace(/\0.*/s, '') ||
      'another thread failed'
    );
  }

  /** Ends all. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    if (!this.#failed) this.#stop();
    for (const worker of this.#workers) worker?.terminate();
    this.#watcher?.then((watcher) => watcher?.terminate());
  }
}
