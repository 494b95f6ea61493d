// Loads artifacts: which build, into which thread or worker, its weights, within the limits. Mirrors
// xla_wasm/host/executor.py.

import { Executable, readStructures } from './executor.js';
import { readManifest } from './manifest.js';
import { compile, file, hints, isLocal, isPlain, pick } from './source.js';

/**
 * How far loading is.
 * @typedef {object} Progress
 * @property {'module' | 'weights' | 'ready'} phase `module` until the code is compiled, `weights` while they arrive,
 *   `ready` at the end
 * @property {number} loaded the bytes of weights that have arrived, of those that the module takes from files
 * @property {number} total how many these are, as the manifest states them; 0 until it is known
 */

/**
 * @typedef {object} LoadOptions
 * @property {import('./source.js').Bytes | import('./source.js').Bytes[]} [weights] the `.weights` file, by default the
 *   one beside the module's URL, if the module needs one; or a safetensors file with the parameters that are weights,
 *   by name; or a list of both
 * @property {boolean} [cache] keep weights in the browser for the next visit, by their hash
 * @property {(progress: Progress) => void} [onProgress] is told how far loading is; what it throws ends the loading
 * @property {AbortSignal} [signal] gives up loading
 * @property {boolean | string | URL} [worker] load and run in a worker of its own; an address is that of a copy of
 *   `worker.js`
 * @property {boolean} [named] runs give an object with the results by name, unless a run says `{named: false}`
 * @property {number} [memoryLimit] the most bytes of linear memory the module may have, on all devices together
 * @property {Record<string, import('./requests/requests.js').HostFunction>} [customCalls] the functions that the module
 *   calls by name
 * @property {boolean} [physical] arrays come and go as the bytes of their layouts, tiles and padding included, in a
 *   Uint8Array each
 * @property {import('./devices/grid.js').Count} [devices] run on so many devices, each in a worker of its own
 * @property {'auto' | 'shared' | 'messages'} [transport] how devices exchange data: through shared memory, by messages,
 *   or as the page can
 * @property {number} [timeout] the seconds that a call may take, `load` included; and that a device waits for others in
 *   one exchange, 60 if nothing is said
 * @property {(event: import('./devices/exchange.js').ExchangeEvent) => void} [onExchange] is told of every exchange
 * @property {number} [threads] how many share the work of a run, of a module compiled with threads, on each device; by
 *   default as many as can run at once
 * @property {boolean} [untrusted] for modules of strangers: into a worker, with 1 GiB and 10 s where nothing else is
 *   said, see limits/untrusted.js
 */

const OPTIONS = (
  'weights cache onProgress signal worker named memoryLimit customCalls physical devices transport timeout ' +
  'onExchange threads untrusted'
).split(' ');

/**
 * Makes an artifact ready to run. Given builds for several targets, it takes the best that this engine can run.
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes
 *   or a compiled module
 * @param {LoadOptions & {devices: import('./devices/grid.js').Count}} options
 * @returns {Promise<import('./devices/replicated.js').ReplicatedExecutable>}
 */
/**
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes
 *   or a compiled module
 * @param {LoadOptions & {devices?: undefined} & ({worker: true | string | URL} | {untrusted: true})} options
 * @returns {Promise<import('./remote.js').RemoteExecutable>}
 */
/**
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes
 *   or a compiled module
 * @param {LoadOptions & {devices?: undefined, worker?: false, untrusted?: false}} [options]
 * @returns {Promise<Executable>}
 */
/**
 * @param {import('./source.js').Source | import('./source.js').Builds} source
 * @param {LoadOptions} [options]
 * @returns {Promise<Executable | import('./remote.js').RemoteExecutable |
 *   import('./devices/replicated.js').ReplicatedExecutable>}
 */
export async function load(source, options = {}) {
  if (!isPlain(options) || Object.keys(options).some((name) => !OPTIONS.includes(name)))
    throw (await hints()).noOption(options, OPTIONS);
  if (options.untrusted)
    [source, options] = (await file('untrusted', () => import('./limits/untrusted.js'))).limited(source, options);
  const { signal, timeout } = options;
  if (timeout === undefined) return attempt(source, options);
  const budget = new (await file('budget', () => import('./limits/budget.js'))).Budget(timeout);
  return budget.within(signal, (told) => attempt(source, { ...options, signal: told }, budget));
}

/**
 * @param {import('./source.js').Source | import('./source.js').Builds} source
 * @param {LoadOptions} options
 * @param {import('./limits/budget.js').Budget} [budget]
 */
async function attempt(source, options, budget) {
  const { signal } = options;
  try {
    signal?.throwIfAborted();
    const chosen = await pick(source);
    const exe = await (options.devices !== undefined
      ? (await file('replicated', () => import('./devices/replicated.js'))).loadReplicated(chosen, options)
      : options.worker
        ? (await file('remote', () => import('./remote.js'))).loadRemote(chosen, options)
        : loadHere(chosen, options, budget));
    if (signal?.aborted) {
      exe.dispose(); // nobody would end its workers
      throw signal;
    }
    if (isLocal('.')) (await file('shown', () => import('./diagnostics/shown.js'))).show(exe);
    return exe;
  } catch (error) {
    // Whatever failed because of that, as a fetch does.
    throw signal?.aborted ? signal.reason : error;
  }
}

/**
 * Loads into this thread.
 * @param {import('./source.js').Source} source
 * @param {LoadOptions & {device?: import('./devices/exchange.js').Device, script?: string}} options
 * @param {import('./limits/budget.js').Budget} [budget]
 */
export async function loadHere(source, { signal, weights, onProgress = () => {}, ...options }, budget) {
  onProgress({ phase: 'module', loaded: 0, total: 0 });
  const begun = instantiate(source, options, signal);
  const files = () =>
    file('weights', () => import('./weights/weights.js')).then(({ ask }) =>
      ask(begun, weights, options.device?.source ?? source, { ...options, signal, onProgress, budget }),
    );
  // They are asked for while the module comes, if it is known where they are.
  const early = weights === undefined ? undefined : files();
  early?.catch(() => {});
  const { manifest, instance } = await begun;
  const { given, loaded, total } =
    manifest.sidecarBytes || early ? await (await (early ?? files()))() : /** @type {any} */ ({ loaded: 0, total: 0 });
  const needsMore =
    options.physical ||
    manifest.requests.length ||
    manifest.devices !== null ||
    [...manifest.parameters, ...manifest.results].some(({ raw }) => raw.sizes !== undefined || raw.shards != null);
  const more =
    needsMore &&
    (await (
      await file('host', () => import('./requests/host.js'))
    ).hostParts(manifest, instance.exports.memory.buffer, options));
  const exe = new Executable(manifest, instance, {
    given,
    named: options.named,
    budget,
    structures: await readStructures(manifest),
    ...more,
  });
  onProgress({ phase: 'ready', loaded, total });
  return exe;
}

/**
 * @param {import('./source.js').Source} source
 * @param {LoadOptions & {device?: import('./devices/exchange.js').Device, script?: string}} options
 * @param {AbortSignal} [signal]
 * @returns {Promise<{manifest: import('./manifest.js').Manifest, instance: {exports: any}}>}
 */
async function instantiate(source, options, signal) {
  const { module, manifest } = await open(source, options, signal);
  if (manifest.threads != null || /** @type {any} */ (options).threads > 1)
    return (await file('threads', () => import('./threads/threads.js'))).instantiate(module, manifest, options);
  let instance;
  try {
    instance = await WebAssembly.instantiate(module, {});
  } catch (error) {
    throw (await hints()).notStarted(error, manifest);
  }
  const { memory } = /** @type {any} */ (instance.exports);
  const { buffer } = memory;
  // No view of a memory that grows would hold after that, nor the limit.
  if (buffer.byteLength !== manifest.memoryBytes || !(buffer instanceof ArrayBuffer) || grows(memory))
    throw (await hints()).otherMemory(manifest, memory, buffer);
  return { manifest, instance };
}

/**
 * Compiles a module and reads its manifest, within the limits.
 * @param {import('./source.js').Source} source
 * @param {LoadOptions} options
 * @param {AbortSignal} [signal]
 */
export async function open(source, options, signal) {
  const strict = options.untrusted && (await file('untrusted', () => import('./limits/untrusted.js')));
  const module = await compile(strict ? await strict.readModule(source, options, signal) : source, signal);
  const manifest = await readManifest(module);
  const lacks = lacking(module);
  if (lacks || WebAssembly.Module.imports(module).length !== (manifest.threads == null ? 0 : 1))
    throw (await hints()).otherModule(module, lacks);
  if (strict) strict.checkManifest(manifest, options);
  await checkMemory(manifest, options);
  return { module, manifest };
}

/**
 * @param {import('./manifest.js').Manifest} manifest
 * @param {LoadOptions} options
 * @param {number} [devices]
 */
export async function checkMemory({ memoryBytes }, { memoryLimit = Infinity }, devices = 1) {
  const needed = memoryBytes * devices;
  if (!(needed <= memoryLimit)) throw (await hints()).tooLarge(needed, memoryLimit);
}

/**
 * Only trying tells, of a compiled module too; a memory with 64-bit addresses has another error.
 * @param {WebAssembly.Memory} memory
 */
function grows(memory) {
  try {
    return memory.grow(1) >= 0;
  } catch (error) {
    return !(error instanceof RangeError);
  }
}

/**
 * Returns the name of an export that a module has to have and this one lacks; undefined if it lacks none.
 * @param {WebAssembly.Module} module
 */
const lacking = (module) =>
  ['memory', 'run', 'init', 'step'].find(
    (name) =>
      !WebAssembly.Module.exports(module).some(
        (item) => item.name === name && item.kind === (name === 'memory' ? name : 'function'),
      ),
  );
