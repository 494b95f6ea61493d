// Loads artifacts and runs them: `load` and `Executable`. Mirrors xla_wasm/host/executor.py and instance.py.

import { Place, accept, describe } from './arrays.js';
import { ArgumentError, ArtifactError, LimitError, RunError } from './errors.js';
import { readManifest } from './manifest.js';
import { compile, pick } from './source.js';

/** @typedef {import('./manifest.js').Leaf} Leaf */
/** @typedef {import('./arrays.js').TypedArray} TypedArray */
/** @typedef {import('./arrays.js').Value} Value */

/**
 * How arrays come from callers and go to them; `accept` gives a row-major array of the leaf's type, `give` takes one.
 * @typedef {object} Passage
 * @property {(leaf: Leaf, value: any, what: string) => any} accept
 * @property {(leaf: Leaf, array: any) => any} give
 */

/**
 * How far loading is: `module` until the code is compiled, `weights` while they arrive, `ready` at the end. `loaded` and `total` count
 * the bytes of weights that the module takes from files, as its manifest states them; 0 until it is known.
 * @typedef {{phase: 'module' | 'weights' | 'ready', loaded: number, total: number}} Progress
 */

/**
 * @typedef {object} LoadOptions
 * @property {import('./source.js').Bytes | import('./source.js').Bytes[]} [weights] the `.weights` file, by default the one beside the module's URL, if the
 *   module needs one; or a safetensors file with the parameters that are weights, by name; or a list of both
 * @property {boolean} [cache] keep weights in the browser for the next visit, by their hash
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal] gives up loading
 * @property {boolean | string | URL} [worker] load and run in a worker of its own; an address is that of a copy of `worker.js`
 * @property {boolean} [named] `run` returns an object with the results by name
 * @property {number} [memoryLimit] the most bytes of linear memory the module may have, on all devices together
 * @property {Record<string, import('./lazy/requests.js').HostFunction>} [customCalls] the functions that the module calls by name
 * @property {boolean} [physical] arrays come and go as the bytes of their layouts, tiles and padding included, in a Uint8Array each
 * @property {import('./lazy/grid.js').Count} [devices] run on so many devices, each in a worker of its own
 * @property {'auto' | 'shared' | 'messages'} [transport] how devices exchange data: through shared memory, by messages, or as the page can
 * @property {number} [timeout] the seconds that a call may take, `load` included; and that a device waits for others in one exchange, 60 if nothing is said
 * @property {(event: import('./lazy/exchange.js').ExchangeEvent) => void} [onExchange] is told of every exchange
 * @property {boolean} [untrusted] for modules of strangers: into a worker, with 1 GiB and 10 s where nothing else is said, see lazy/untrusted.js
 */

/** What may follow the arguments of a run. @typedef {{signal?: AbortSignal} & import('./lazy/feeds.js').FeedOptions} RunOptions */

const OPTIONS = 'weights cache onProgress signal worker named memoryLimit customCalls physical devices transport timeout onExchange untrusted'.split(' ');
const RUN_OPTIONS = 'signal infeed outfeed send recv'.split(' ');
const DISPOSED = new Error('disposed');

/** @param {any} value */
const isPlain = (value) => value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype;

/**
 * Takes the options from behind the arguments of a run.
 * @param {any[]} values
 * @param {boolean} first whether they may come first, since there are no arguments
 * @returns {RunOptions}
 */
export function takeOptions(values, first) {
  const options = (first || values.length > 1) && isPlain(values.at(-1)) && Object.keys(values.at(-1)).length ? values.pop() : {};
  for (const name of Object.keys(options)) if (!RUN_OPTIONS.includes(name)) throw new ArgumentError(`after its arguments, run takes {${RUN_OPTIONS}}, not '${name}'`);
  return options;
}

/**
 * Makes an artifact ready to run. Given builds for several targets, it takes the best that this engine can run.
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes or a compiled module
 * @param {LoadOptions & {devices: import('./lazy/grid.js').Count}} options
 * @returns {Promise<import('./lazy/replicated.js').ReplicatedExecutable>}
 */
/**
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes or a compiled module
 * @param {LoadOptions & {devices?: undefined} & ({worker: true | string | URL} | {untrusted: true})} options
 * @returns {Promise<import('./remote.js').RemoteExecutable>}
 */
/**
 * @overload
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes or a compiled module
 * @param {LoadOptions & {devices?: undefined, worker?: false, untrusted?: false}} [options]
 * @returns {Promise<Executable>}
 */
/**
 * @param {import('./source.js').Source | import('./source.js').Builds} source
 * @param {LoadOptions} [options]
 * @returns {Promise<Executable | import('./remote.js').RemoteExecutable | import('./lazy/replicated.js').ReplicatedExecutable>}
 */
export async function load(source, options = {}) {
  if (!isPlain(options)) throw new ArgumentError(`the options of load are an object, such as {weights: ...}; got ${typeof options}`);
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw (await import('./lazy/hints.js')).noOption(name, OPTIONS);
  }
  if (options.untrusted) [source, options] = (await import('./lazy/untrusted.js')).limited(source, options);
  const { signal, timeout } = options;
  if (timeout === undefined) return attempt(source, options);
  const budget = new (await import('./lazy/budget.js')).Budget(timeout);
  return budget.within(signal, (told) => attempt(source, { ...options, signal: told }, budget));
}

/**
 * @param {import('./source.js').Source | import('./source.js').Builds} source
 * @param {LoadOptions} options
 * @param {import('./lazy/budget.js').Budget} [budget]
 */
async function attempt(source, options, budget) {
  const { signal } = options;
  try {
    signal?.throwIfAborted();
    const chosen = await pick(source);
    const exe =
      options.devices !== undefined
        ? await (await import('./lazy/replicated.js')).loadReplicated(chosen, options)
        : await (options.worker ? (await import('./remote.js')).loadRemote(chosen, options) : loadHere(chosen, options, budget));
    // Nobody would end its workers.
    if (signal?.aborted) exe.dispose();
    signal?.throwIfAborted();
    return exe;
  } catch (error) {
    // Whatever failed because of that, as a fetch does.
    throw signal?.aborted ? signal.reason : error;
  }
}

/**
 * Loads into this thread.
 * @param {import('./source.js').Source} source
 * @param {LoadOptions & {device?: import('./lazy/exchange.js').Device}} options
 * @param {import('./lazy/budget.js').Budget} [budget]
 */
export async function loadHere(source, { signal, weights, onProgress = () => {}, ...options }, budget) {
  onProgress({ phase: 'module', loaded: 0, total: 0 });
  const { module, manifest } = await open(source, options, signal);
  let instance;
  try {
    instance = await WebAssembly.instantiate(module, {});
  } catch (error) {
    throw (await import('./lazy/hints.js')).notStarted(error, manifest);
  }
  const { memory, init } = /** @type {any} */ (instance.exports);
  const { buffer } = memory;
  if (buffer.byteLength !== manifest.memoryBytes || !(buffer instanceof ArrayBuffer)) {
    throw new ArtifactError(`the manifest states ${manifest.memoryBytes} bytes of memory, the module has ${buffer.byteLength}`);
  }
  // No view of the memory would hold after that, nor the limit.
  if (grows(memory)) throw new ArtifactError(`the memory of '${manifest.name}' may grow beyond the ${manifest.memoryBytes} bytes that the manifest states`);
  const { physical, named, cache, device } = options;
  let last = { loaded: 0, total: 0 };
  let given;
  if (manifest.sidecarBytes || weights !== undefined) {
    const report = (/** @type {number} */ loaded, /** @type {number} */ total) => onProgress({ phase: 'weights', ...(last = { loaded, total }) });
    given = await (await import('./weights.js')).pour({ manifest, buffer, init, report, signal, cache, budget }, weights, device?.source ?? source);
  }
  let passage;
  if (physical) passage = (await import('./lazy/layouts.js')).physical(manifest);
  else if ([...manifest.parameters, ...manifest.results].some((leaf) => leaf.raw.sizes !== undefined)) {
    passage = (await import('./lazy/dynamic.js')).dynamic(manifest, buffer);
  }
  const serve = manifest.requests.length || manifest.devices ? await (await import('./lazy/requests.js')).requests(manifest, options) : undefined;
  const exe = new Executable(manifest, instance, { given, passage, serve, named, budget });
  onProgress({ phase: 'ready', ...last });
  return exe;
}

/**
 * Compiles a module and reads its manifest, within the limits.
 * @param {import('./source.js').Source} source
 * @param {LoadOptions} options
 * @param {AbortSignal} [signal]
 */
export async function open(source, options, signal) {
  const strict = options.untrusted && (await import('./lazy/untrusted.js'));
  const module = await compile(strict ? await strict.readModule(source, options, signal) : source, signal);
  const manifest = readManifest(module);
  checkModule(module);
  if (strict) strict.checkManifest(manifest, options);
  checkMemory(manifest, options);
  return { module, manifest };
}

/**
 * @param {import('./manifest.js').Manifest} manifest
 * @param {LoadOptions} options
 * @param {number} [devices]
 */
export function checkMemory({ memoryBytes }, { memoryLimit = Infinity }, devices = 1) {
  const needed = memoryBytes * devices;
  if (!(needed <= memoryLimit)) throw new LimitError(`the module needs ${needed} bytes of memory, the limit is ${memoryLimit}`);
}

/** Only trying tells, of a compiled module too; a memory with 64-bit addresses has another error. @param {WebAssembly.Memory} memory */
function grows(memory) {
  try {
    return memory.grow(1) >= 0;
  } catch (error) {
    return !(error instanceof RangeError);
  }
}

/** @param {WebAssembly.Module} module */
function checkModule(module) {
  const imports = WebAssembly.Module.imports(module).map((item) => `${item.module}.${item.name}`);
  if (imports.length) throw new ArtifactError(`the module must import nothing, but imports ${imports.slice(0, 5).join(', ')}`);
  const exports = WebAssembly.Module.exports(module);
  for (const [name, kind] of [['memory', 'memory'], ['run', 'function'], ['init', 'function'], ['step', 'function']]) {
    if (!exports.some((item) => item.name === name && item.kind === kind)) throw new ArtifactError(`the module exports no ${kind} '${name}'`);
  }
}

/** A module ready to run. It runs one thing at a time. */
export class Executable {
  #buffer;
  #run;
  #init;
  #step;
  /** @type {Place[]} */
  #inputs = [];
  /** @type {Place[]} */
  #outputs = [];
  /** @type {Map<string, Leaf>} */
  #held = new Map();
  /** @type {Map<string, TypedArray>} */
  #weights = new Map();
  /** @type {Set<string>} */
  #unset = new Set();
  #passage;
  #requests;
  #named;
  #budget;
  /** @type {unknown} */
  #failure;
  #busy = false;

  /**
   * Use `load`.
   * @param {import('./manifest.js').Manifest} manifest
   * @param {WebAssembly.Instance} instance with the weights that files hold
   * @param {{given?: Set<string>, passage?: Passage, serve?: (buffer: ArrayBuffer) => import('./lazy/requests.js').Requests, named?: boolean, budget?: import('./lazy/budget.js').Budget}} [parts]
   */
  constructor(manifest, instance, { given, passage = { accept, give: (_, array) => array }, serve, named, budget } = {}) {
    this.#passage = passage;
    this.#named = named;
    this.#budget = budget;
    /** @readonly */
    this.manifest = manifest;
    const { memory, run, init, step } = /** @type {any} */ (instance.exports);
    this.#buffer = /** @type {ArrayBuffer} */ (memory.buffer);
    this.#requests = serve?.(this.#buffer);
    this.#run = /** @type {() => number} */ (run);
    this.#init = /** @type {(index: number) => void} */ (init);
    this.#step = /** @type {(pc: number) => number} */ (step);
    for (const leaf of manifest.parameters) {
      if (leaf.kind === 'input') this.#inputs.push(new Place(leaf, this.#buffer));
      else this.#held.set(leaf.name, leaf);
      if (leaf.kind === 'weight' && !given?.has(leaf.name)) this.#unset.add(leaf.name);
    }
    this.#outputs = manifest.results.filter((leaf) => leaf.kind === 'output').map((leaf) => new Place(leaf, this.#buffer));
    // Where files were poured this was done before their weights, which may need it.
    if (!given) for (const { kind, index, name } of manifest.inits) if (kind === 'segment') this.#guard(() => this.#init(index), `preparing the weights of '${name}'`);
  }

  /** All parameters in order; those of kind `input` are the arguments of `run`. */
  get parameters() {
    return this.manifest.parameters;
  }

  /** All results in order; those of kind `output` are what `run` returns. */
  get results() {
    return this.manifest.results;
  }

  /**
   * Runs the module on one array for each input, or on one object that maps their names to arrays; returns copies of the outputs.
   * Arrays are row-major; typed arrays must be of the parameter's type, plain numbers and arrays are converted when nothing is lost.
   * After them may come `{infeed, outfeed, send, recv}`: what goes between the run and its host, see lazy/feeds.js.
   * @param {...any} values
   * @returns {any} a typed array for each output, in a list or, with the option `named`, by name
   */
  run(...values) {
    this.#begin(values);
    while (this.#waits()) this.#requests?.serve();
    return this.#results();
  }

  /**
   * As `run`, for modules whose host gives promises (functions, feeds), and for runs that an AbortSignal may end: `{signal}` after the
   * arguments. Those pause now and then, so a page stays alive; an aborted run leaves states as they were before it.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async runAsync(...values) {
    const { inSlices } = this.#budget || (isPlain(values.at(-1)) && values.at(-1).signal) ? await import('./lazy/slices.js') : {};
    const given = this.#begin(values);
    const go = async (/** @type {AbortSignal | undefined} */ signal) => {
      if (signal && inSlices && this.manifest.steps.length) {
        this.#busy = true;
        try {
          await inSlices((pc) => this.#stepFrom(pc, signal), signal, this.#buffer, this.#held.values());
        } finally {
          this.#busy = false;
          this.#requests?.forget();
        }
      } else while (this.#waits()) await this.#requests?.serveAsync(signal);
    };
    await (this.#budget ? this.#budget.telling(given, go) : go(given));
    return this.#results();
  }

  /**
   * Runs one step, and what it asks of the host; gives the next.
   * @param {number} pc
   * @param {AbortSignal} [wait] may end the waiting for it, if there may be any
   * @returns {any}
   */
  #stepFrom(pc, wait) {
    const { length } = this.manifest.steps;
    if (pc >= length) throw new ArtifactError(`the module jumps to step ${pc} of ${length}`);
    const next = this.#guard(() => this.#step(pc));
    return next < -1 && this.#requests ? (wait ? this.#requests.serveAsync(wait) : this.#requests.serve()) : next;
  }

  #results() {
    const arrays = this.#outputs.map((place) => this.#passage.give(place.leaf, place.read()));
    return this.#named ? Object.fromEntries(this.#outputs.map(({ leaf }, i) => [leaf.name, arrays[i]])) : arrays;
  }

  /** Runs on to the end, or to a request. */
  #waits() {
    const outcome = this.#guard(this.#run);
    if (outcome && !this.#requests?.made(outcome)) throw new RunError(`'${this.manifest.name}' waits for its host, but stated no requests`);
    return outcome;
  }

  /**
   * Runs the module step by step.
   * @param {...any} values
   * @returns {[string, number][]} instruction and seconds of every step that ran, loops summed
   */
  profile(...values) {
    this.#begin(values);
    const names = this.manifest.steps;
    /** @type {Map<number, number>} */
    const spent = new Map();
    for (let pc = names.length ? 0 : -1; pc >= 0; ) {
      const current = pc;
      const begin = performance.now();
      pc = this.#stepFrom(current);
      spent.set(current, (spent.get(current) ?? 0) + (performance.now() - begin) / 1000);
    }
    this.#requests?.forget();
    return [...spent].sort(([a], [b]) => a - b).map(([pc, seconds]) => [names[pc], seconds]);
  }

  /**
   * Sets a weight, or the state that the next run begins with.
   * @param {string} name
   * @param {Value} value
   */
  set(name, value) {
    const leaf = this.#leaf(name);
    const array = this.#passage.accept(leaf, value, `${leaf.kind} '${name}'`);
    this.#refuseFailed();
    if (leaf.init == null) {
      new Place(leaf, this.#buffer).write(array);
    } else {
      const { index, staging, bytes } = this.manifest.inits[leaf.init];
      // The staging area need not be aligned for the type, so the weight is laid out beside it first.
      const laid = new Place(leaf, new ArrayBuffer(bytes), 0);
      laid.write(array);
      new Uint8Array(this.#buffer, staging, bytes).set(new Uint8Array(laid.view.buffer));
      this.#guard(() => this.#init(index), `preparing the weights of '${name}'`);
      this.#weights.set(name, array.slice());
    }
    this.#unset.delete(name);
  }

  /**
   * A copy of a weight as it was set, or of a state as the last run left it.
   * @param {string} name
   * @returns {any} a typed array
   */
  get(name) {
    const leaf = this.#leaf(name);
    this.#refuseFailed();
    if (this.#unset.has(name)) throw new ArgumentError(`weight '${name}' has not been set`);
    const weight = this.#weights.get(name);
    if (leaf.init != null && !weight) throw new ArgumentError(`weight '${name}' came from a file and is kept packed: it cannot be read back`);
    return this.#passage.give(leaf, weight?.slice() ?? new Place(leaf, this.#buffer).read());
  }

  /** Lets go of the module and its memory; whatever is called after that throws. */
  dispose() {
    this.#failure = DISPOSED;
    this.#buffer = this.#run = this.#init = this.#step = /** @type {any} */ (undefined);
    this.#requests = undefined;
    this.#inputs = this.#outputs = [];
    this.#weights.clear();
  }

  /** @param {string} name */
  #leaf(name) {
    const leaf = this.#held.get(name);
    if (leaf) return leaf;
    throw new ArgumentError(`'${this.manifest.name}' has no weight or state called '${name}' (known: ${[...this.#held.keys()].slice(0, 8).join(', ') || 'it has none'})`);
  }

  /**
   * Takes the options and the arguments of a run.
   * @param {any[]} values
   */
  #begin(values) {
    this.#refuseFailed();
    const { signal, ...feeds } = takeOptions(values, !this.#inputs.length);
    signal?.throwIfAborted();
    if (this.#requests) this.#requests.begin(feeds);
    else for (const kind of Object.keys(feeds)) throw new ArgumentError(`'${this.manifest.name}' was given ${kind}, but there is no ${kind} in it`);
    this.#write(values);
    return signal;
  }

  /** @param {any[]} values */
  #write(values) {
    for (const name of this.#unset) throw new ArgumentError(`weight '${name}' has not been set: call exe.set('${name}', ...) first`);
    const places = this.#inputs;
    const [first] = values;
    if (values.length === 1 && isPlain(first)) values = this.#byName(first);
    if (values.length !== places.length) {
      const names = places.slice(0, 8).map(({ leaf }) => `${leaf.name}: ${describe(leaf)}`).join(', ') + (places.length > 8 ? ', ...' : '');
      throw new ArgumentError(`'${this.manifest.name}' takes ${places.length} arguments (${names}), got ${values.length}`);
    }
    const arrays = places.map(({ leaf }, i) => this.#passage.accept(leaf, values[i], `argument ${i} ('${leaf.name}')`));
    places.forEach((place, i) => place.write(arrays[i]));
  }

  /** @param {Record<string, any>} named */
  #byName(named) {
    const names = this.#inputs.map(({ leaf }) => leaf.name);
    for (const name of Object.keys(named)) {
      if (!names.includes(name)) throw new ArgumentError(`'${this.manifest.name}' has no argument called '${name}' (known: ${names.slice(0, 8).join(', ')})`);
    }
    for (const name of names) if (!Object.hasOwn(named, name)) throw new ArgumentError(`argument '${name}' is missing`);
    return names.map((name) => named[name]);
  }

  #refuseFailed() {
    const { name } = this.manifest;
    if (this.#failure === DISPOSED) throw new RunError(`'${name}' has been disposed of: load it again`);
    if (this.#busy) throw new RunError(`'${name}' is running: await that before the next call`);
    this.#requests?.refuseBusy();
    if (this.#failure) throw new RunError(`'${name}' failed before and its memory cannot be trusted: load it again`, { cause: this.#failure });
    this.#budget?.begin(`a call of '${name}'`);
  }

  /**
   * Turns a trap into an error that says where it was.
   * @template T
   * @param {() => T} work
   * @param {string} [stage]
   * @returns {T}
   */
  #guard(work, stage) {
    if (this.#failure === DISPOSED) this.#refuseFailed();
    try {
      this.#budget?.check();
      return work();
    } catch (error) {
      // A run in slices leaves states as they were.
      if (!this.#busy || !(error instanceof LimitError)) this.#failure = error;
      if (error instanceof LimitError) throw error;
      const { name, config, steps } = this.manifest;
      const pc = new DataView(this.#buffer).getUint32(config, true);
      const where = stage ?? `in step ${pc} of ${steps.length}, ${steps[pc] ?? 'which does not exist'}`;
      throw new RunError(`'${name}' failed ${where}: ${/** @type {Error} */ (error).message}`, { cause: error });
    }
  }
}
