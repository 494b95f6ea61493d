// What a worker does that helps an instance in another thread, and one that watches over such workers: see threads.js.

const FAILED = 136;
const DONE = 64;
const SAID = 160;
const SAID_BYTES = 96;

/**
 * An object that is freed when this worker ends, however it does: a lock, or a port that is closed then.
 * @type {unknown}
 */
let held;

/**
 * Helps until the other thread ends it.
 * @param {{module: WebAssembly.Module, memory: WebAssembly.Memory, control: number, number: number, lock?: string,
 *   end?: MessagePort}} shared
 * @param {any} port to the other thread
 */
export async function help({ module, memory, control, number, lock, end }, port) {
  held = end;
  if (lock) await new Promise((has) => navigator.locks.request(lock, () => (has(undefined), new Promise(() => {}))));
  const instance = await WebAssembly.instantiate(module, { host: { memory } });
  port.postMessage('ready');
  try {
    /** @type {any} */ (instance.exports).work(number);
  } catch (error) {
    const said = new TextEncoder().encode(String(/** @type {Error} */ (error).message)).subarray(0, SAID_BYTES);
    new Uint8Array(memory.buffer, control + SAID, SAID_BYTES).set(said);
    const words = new Int32Array(memory.buffer, control);
    Atomics.store(words, FAILED / 4, number);
    Atomics.notify(words, DONE / 4);
  }
  port.close();
  /** @type {any} */ (held)?.close();
}

/**
 * Has the run of the other thread fail if a thread ends while it computes a chunk: nobody else would do that, and the
 * other thread, which waits for it, hears nothing.
 * @param {{memory: WebAssembly.Memory, control: number, number: number, own: number, lock?: string, end?: MessagePort}}
 *   watched
 */
export function watch({ memory, control, number, own, lock, end }) {
  const ended = () => {
    const words = new Int32Array(memory.buffer);
    if (!Atomics.load(words, own / 4)) return;
    Atomics.compareExchange(words, (control + FAILED) / 4, 0, -number);
    Atomics.notify(words, (control + DONE) / 4);
  };
  if (lock) navigator.locks.request(lock, ended);
  else if (end) {
    end.addEventListener('close', ended);
    end.start();
  }
}
