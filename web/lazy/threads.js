// Threads: a module with a shared memory, and the workers that help the one that runs it. Mirrors xla_wasm/host/team.py.

import { ArgumentError, LimitError } from '../errors.js';
import { builtin } from '../source.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

const PAGE = 65536;
const MOST_PAGES = 65536;
/** What hosts write in the control block: see `CONTROL_BYTES` in xla_wasm/target.py. */
const FAILED = 136 / 4;
const AWAKE = 140 / 4;
const RESTARTS = 3;
const PATIENCE = 10_000; // milliseconds for workers to start

/** Whether it was said that threads are out of reach. */
let warned = false;

/** How many threads can run at once. */
const processors = () => builtin('node:os')?.availableParallelism?.() ?? globalThis.navigator?.hardwareConcurrency ?? 1;

/** Whether this thread may wait: the main thread of a page may not. @param {Int32Array} words */
function mayWait(words) {
  try {
    Atomics.wait(words, AWAKE, 1, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * How many threads a run has.
 * @param {Manifest} manifest
 * @param {{threads?: number, untrusted?: boolean, device?: unknown}} options
 */
export function count(manifest, { threads, untrusted, device }) {
  if (threads !== undefined && !(Number.isSafeInteger(threads) && threads > 0)) throw new ArgumentError(`threads is a whole number above zero, got ${threads}`);
  if (!manifest.threads) {
    if (threads && threads > 1) throw new ArgumentError(`'${manifest.name}' is compiled for one thread: compile it with --threads`);
    return 1;
  }
  const most = 1 + Math.floor((MOST_PAGES * PAGE - manifest.memoryBytes) / manifest.threads.bytes);
  if (threads && threads > most) throw new ArgumentError(`'${manifest.name}' has memory for at most ${most} threads, not ${threads}`);
  // Devices have the processors already.
  if (untrusted || device) return 1;
  const wanted = Math.min(threads ?? processors(), most);
  if (wanted > 1 && globalThis.crossOriginIsolated === false) {
    if (!warned) console.warn(`'${manifest.name}' runs on one thread: more need a page that is cross-origin isolated, so serve it with the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp`);
    warned = true;
    return 1;
  }
  return wanted;
}

/**
 * An instance of the module with its memory, and who helps it.
 * @param {WebAssembly.Module} module
 * @param {Manifest} manifest
 * @param {{threads?: number, untrusted?: boolean, device?: unknown}} options
 */
export async function instantiate(module, manifest, options) {
  const threads = count(manifest, options);
  const { control, bytes } = /** @type {{control: number, bytes: number}} */ (manifest.threads);
  const pages = Math.ceil((manifest.memoryBytes + (threads - 1) * bytes) / PAGE);
  let memory;
  try {
    memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch (error) {
    throw new LimitError(`no room for ${pages * PAGE} bytes of shared memory: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
  const instance = await WebAssembly.instantiate(module, { host: { memory } });
  const words = new Int32Array(memory.buffer, control, 64);
  if (!mayWait(words)) words[AWAKE] = 1;
  const team = threads > 1 ? new Team({ module, memory, control }, threads - 1, words, /** @type {any} */ (instance.exports).stop) : undefined;
  await team?.start();
  return { instance: { exports: { ...instance.exports, memory } }, team };
}

/** Starts a worker that helps. @returns {any} */
function startWorker() {
  const Thread = builtin('node:worker_threads')?.Worker;
  if (Thread) return new Thread(new URL('./thread.js', import.meta.url));
  try {
    // Bundlers look for exactly this.
    return new Worker(new URL('./thread.js', import.meta.url), { type: 'module' });
  } catch {
    const blob = new Blob([`import ${JSON.stringify(new URL('./thread.js', import.meta.url).href)};`], { type: 'text/javascript' });
    return new Worker(URL.createObjectURL(blob), { type: 'module' });
  }
}

/** The workers that help one instance. */
export class Team {
  #shared;
  #words;
  #stop;
  #workers;
  #restarts = 0;
  #ended = false;

  /**
   * @param {{module: WebAssembly.Module, memory: WebAssembly.Memory, control: number}} shared what each is started with
   * @param {number} count
   * @param {Int32Array} words the control block
   * @param {() => void} stop has them end
   */
  constructor(shared, count, words, stop) {
    this.#shared = shared;
    this.#words = words;
    this.#stop = stop;
    /** @type {any[]} */
    this.#workers = Array.from({ length: count });
  }

  /** Starts all; resolves when they are there, or when it is clear that some will not be: then the others do their work. */
  async start() {
    /** @type {any} */
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE)));
    await Promise.race([Promise.all(this.#workers.map((_, i) => this.#start(i))), late]);
    clearTimeout(timer);
  }

  /** @param {number} i */
  #start(i) {
    return new Promise((resolve) => {
      let worker;
      try {
        worker = startWorker();
      } catch {
        return resolve(undefined);
      }
      this.#workers[i] = worker;
      const hear = (/** @type {any} */ said) => said === 'ready' && resolve(undefined);
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
      worker.postMessage({ ...this.#shared, number: i + 1 });
    });
  }

  get #failed() {
    return Atomics.load(this.#words, FAILED) !== 0;
  }

  /** What a thread failed with; empty if none has. */
  get failure() {
    const number = Atomics.load(this.#words, FAILED);
    if (!number) return '';
    const { memory, control } = this.#shared;
    return new TextDecoder().decode(new Uint8Array(memory.buffer, control + 160, 96).slice()).replace(/\0.*/s, '') || 'another thread failed';
  }

  /** Ends all. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    if (!this.#failed) this.#stop();
    for (const worker of this.#workers) worker?.terminate();
  }
}
