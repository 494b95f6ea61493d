// What a worker does that helps an instance in another thread: see threads.js.

const FAILED = 136;
const DONE = 64;
const SAID = 160;
const SAID_BYTES = 96;

/**
 * Helps until the other thread ends it.
 * @param {{module: WebAssembly.Module, memory: WebAssembly.Memory, control: number, number: number}} shared
 * @param {any} port to the other thread
 */
export async function help({ module, memory, control, number }, port) {
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
}
