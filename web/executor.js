// Loads artifacts and runs them: `load` and `Executable`. Mirrors xla_wasm/host/executor.py and instance.py.

import { Place, accept, describe } from './arrays.js';
import { ArgumentError, ArtifactError, LimitError, RunError } from './errors.js';
import { readManifest } from './manifest.js';
import { compile, locationOf, pick, readBytes } from './source.js';

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
 * @typedef {object} LoadOptions
 * @property {import('./source.js').Bytes} [weights] the `.weights` file; by default the one beside the module's URL, if the module needs one
 * @property {number} [memoryLimit] the most bytes of linear memory the module may have
 * @property {boolean} [physical] arrays come and go as the bytes of their layouts, tiles and padding included, in a Uint8Array each
 */

/**
 * Makes an artifact ready to run. Given builds for several targets, it takes the best that this engine can run.
 * @param {import('./source.js').Source | import('./source.js').Builds} source a URL, a path (Node), a Response, bytes or a compiled module
 * @param {LoadOptions} [options]
 * @returns {Promise<Executable>}
 */
export async function load(source, options = {}) {
  const chosen = pick(source);
  const module = await compile(chosen);
  const manifest = readManifest(module);
  checkModule(module);
  if (options.memoryLimit !== undefined && manifest.memoryBytes > options.memoryLimit) {
    throw new LimitError(`the module needs ${manifest.memoryBytes} bytes of memory, the limit is ${options.memoryLimit}`);
  }
  const weights = await sidecar(manifest, options.weights ?? besides(chosen));
  let instance;
  try {
    instance = await WebAssembly.instantiate(module, {});
  } catch (error) {
    const why = /** @type {Error} */ (error).message;
    if (error instanceof WebAssembly.RuntimeError) throw new ArtifactError(`the module traps when it starts: ${why}`, { cause: error });
    throw new LimitError(`no room for an instance with ${manifest.memoryBytes} bytes of memory: ${why}`, { cause: error });
  }
  const passage = options.physical ? (await import('./lazy/layouts.js')).physical(manifest) : undefined;
  return new Executable(manifest, instance, weights, passage);
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

/**
 * `model.weights` beside `model.wasm`.
 * @param {import('./source.js').Source} source
 */
function besides(source) {
  const location = locationOf(source);
  return location ? location.replace(/(\.wasm)?(?=$|[?#])/, '.weights') : undefined;
}

/**
 * The content of the weights file, or nothing if the module needs none; hashed, since files get mixed up.
 * @param {import('./manifest.js').Manifest} manifest
 * @param {import('./source.js').Bytes | undefined} source
 */
async function sidecar(manifest, source) {
  if (!manifest.sidecarBytes) return new Uint8Array(0);
  const needs = `the weights file of '${manifest.name}' must have ${manifest.sidecarBytes} bytes`;
  if (source === undefined) throw new ArtifactError(`${needs} and none was given: load(source, {weights: ...})`);
  const bytes = await readBytes(source);
  if (bytes.length < manifest.sidecarBytes) throw new ArtifactError(`${needs} but has only ${bytes.length}: it is cut short or of another module`);
  // Web Crypto exists in secure contexts only; elsewhere the size must do.
  const subtle = globalThis.crypto?.subtle;
  for (const init of manifest.inits) {
    if (init.kind !== 'sidecar' || !subtle) continue;
    const digest = await subtle.digest('SHA-256', bytes.subarray(init.sidecar_offset, init.sidecar_offset + init.bytes));
    const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
    if (hex !== init.sha256) throw new ArtifactError(`the weights of '${init.name}' are not those the module was compiled with: wrong or damaged weights file`);
  }
  return bytes;
}

/** A module ready to run. It runs one thing at a time, synchronously. */
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
  /** @type {unknown} */
  #failure;

  /**
   * Use `load`.
   * @param {import('./manifest.js').Manifest} manifest
   * @param {WebAssembly.Instance} instance
   * @param {Uint8Array} sidecar
   * @param {Passage} [passage]
   */
  constructor(manifest, instance, sidecar, passage = { accept, give: (_, array) => array }) {
    this.#passage = passage;
    /** @readonly */
    this.manifest = manifest;
    const { memory, run, init, step } = /** @type {any} */ (instance.exports);
    this.#buffer = /** @type {ArrayBuffer} */ (memory.buffer);
    if (this.#buffer.byteLength !== manifest.memoryBytes || !(this.#buffer instanceof ArrayBuffer)) {
      throw new ArtifactError(`the manifest states ${manifest.memoryBytes} bytes of memory, the module has ${this.#buffer.byteLength}`);
    }
    this.#run = /** @type {() => number} */ (run);
    this.#init = /** @type {(index: number) => void} */ (init);
    this.#step = /** @type {(pc: number) => number} */ (step);
    for (const leaf of manifest.parameters) {
      if (leaf.kind === 'input') this.#inputs.push(new Place(leaf, this.#buffer));
      else this.#held.set(leaf.name, leaf);
      if (leaf.kind === 'weight') this.#unset.add(leaf.name);
    }
    this.#outputs = manifest.results.filter((leaf) => leaf.kind === 'output').map((leaf) => new Place(leaf, this.#buffer));
    for (const { kind, index, name, staging, bytes, sidecar_offset } of manifest.inits) {
      if (kind === 'weight') continue;
      if (kind === 'sidecar') new Uint8Array(this.#buffer, staging, bytes).set(sidecar.subarray(sidecar_offset, sidecar_offset + bytes));
      this.#guard(() => this.#init(index), `preparing the weights of '${name}'`);
    }
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
   * @param {...any} values
   * @returns {any[]} a typed array for each output
   */
  run(...values) {
    this.#write(values);
    if (this.#guard(this.#run) !== 0) throw new RunError(`'${this.manifest.name}' waits for its host, but stated no requests`);
    return this.#outputs.map((place) => this.#passage.give(place.leaf, place.read()));
  }

  /**
   * Runs the module step by step.
   * @param {...any} values
   * @returns {[string, number][]} instruction and seconds of every step that ran, loops summed
   */
  profile(...values) {
    this.#write(values);
    const names = this.manifest.steps;
    /** @type {Map<number, number>} */
    const spent = new Map();
    for (let pc = names.length ? 0 : -1; pc >= 0; ) {
      if (pc >= names.length) throw new ArtifactError(`the module jumps to step ${pc} of ${names.length}`);
      const current = pc;
      const begin = performance.now();
      pc = this.#guard(() => this.#step(current));
      spent.set(current, (spent.get(current) ?? 0) + (performance.now() - begin) / 1000);
    }
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
    return this.#passage.give(leaf, this.#weights.get(name)?.slice() ?? new Place(leaf, this.#buffer).read());
  }

  /** @param {string} name */
  #leaf(name) {
    const leaf = this.#held.get(name);
    if (leaf) return leaf;
    throw new ArgumentError(`'${this.manifest.name}' has no weight or state called '${name}' (known: ${[...this.#held.keys()].slice(0, 8).join(', ') || 'it has none'})`);
  }

  /** @param {any[]} values */
  #write(values) {
    this.#refuseFailed();
    for (const name of this.#unset) throw new ArgumentError(`weight '${name}' has not been set: call exe.set('${name}', ...) first`);
    const places = this.#inputs;
    const [first] = values;
    if (values.length === 1 && first && Object.getPrototypeOf(first) === Object.prototype) values = this.#byName(first);
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
    if (this.#failure) throw new RunError(`'${this.manifest.name}' failed before and its memory cannot be trusted: load it again`, { cause: this.#failure });
  }

  /**
   * Turns a trap into an error that says where it was.
   * @template T
   * @param {() => T} work
   * @param {string} [stage]
   * @returns {T}
   */
  #guard(work, stage) {
    try {
      return work();
    } catch (error) {
      this.#failure = error;
      const { name, config, steps } = this.manifest;
      const pc = new DataView(this.#buffer).getUint32(config, true);
      const where = stage ?? `in step ${pc} of ${steps.length}, ${steps[pc] ?? 'which does not exist'}`;
      throw new RunError(`'${name}' failed ${where}: ${/** @type {Error} */ (error).message}`, { cause: error });
    }
  }
}
