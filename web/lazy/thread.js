// The script of a worker that helps an instance in another thread: see threads.js.

const port = /** @type {any} */ (globalThis).process?.getBuiltinModule?.('node:worker_threads')?.parentPort ?? globalThis;
const FAILED = 136;
const SAID = 160;
const SAID_BYTES = 96;

/** @param {{module: WebAssembly.Module, memory: WebAssembly.Memory, control: number, number: number}} shared */
async function help({ module, memory, control, number }) {
  const { exports } = await WebAssembly.instantiate(module, { host: { memory } });
  port.postMessage('ready');
  try {
    /** @type {any} */ (exports).work(number);
  } catch (error) {
    const said = new TextEncoder().encode(String(/** @type {Error} */ (error).message)).subarray(0, SAID_BYTES);
    new Uint8Array(memory.buffer, control + SAID, SAID_BYTES).set(said);
    const words = new Int32Array(memory.buffer, control);
    Atomics.store(words, FAILED / 4, number);
    Atomics.notify(words, 64 / 4);
  }
}

const hear = (/** @type {any} */ { data }) => {
  help(data).then(() => port.close?.());
};
if (port.on) port.on('message', (/** @type {any} */ data) => hear({ data }));
else port.onmessage = hear;
