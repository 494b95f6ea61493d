// Runs a module that is loaded: `Executable`. Mirrors xla_wasm/host/executor.py and instance.py.

import { Place, accept, counted, describe } from './arrays.js';
import { ArgumentError, ArtifactError, LimitError, RunError } from './errors.js';
import { clock, file, isPlain } from './source.js';

/** @typedef {import('./manifest.js').Leaf} Leaf */
/** @typedef {import('./arrays.js').TypedArray} TypedArray */
/** @typedef {import('./arrays.js').Value} Value */
/** @typedef {import('./arrays/structures.js').Structures} Structures */

/**
 * How arrays come from callers and go to them; `accept` gives a row-major array of the leaf's type, `give` takes one.
 * @typedef {object} Converter
 * @property {(leaf: Leaf, value: any, what: string) => any} accept
 * @property {(leaf: Leaf, array: any) => any} give
 * @property {boolean} [physical] whether they are bytes of layouts
 */

/**
 * Options behind the arguments of a run, without those of feeds.
 * @typedef {object} OwnRunOptions
 * @property {TypedArray[]} [out] a typed array for each output, into which it is written; no copy is returned then
 * @property {AbortSignal} [signal] ends a run of `runAsync`, or in a worker, between two of its steps
 * @property {boolean} [named] results come in an object by name; by default as the option of `load` says
 */

/**
 * Options behind the arguments of a run.
 * @typedef {OwnRunOptions & import('./requests/feeds.js').FeedOptions} RunOptions
 */

const RUN_OPTIONS = 'out signal named infeed outfeed send recv'.split(' ');
const DISPOSED = new Error('disposed');

/**
 * Takes the options from behind the arguments of a run.
 * @param {any[]} values
 * @param {boolean} first whether they may come first, since there are no arguments
 * @param {Pick<Structures, 'isArgument'>} [structures] of the arguments
 * @returns {RunOptions}
 */
export function takeOptions(values, first, structures) {
  const last = values.at(-1);
  const options =
    (first || values.length > 1) && isPlain(last) && !structures?.isArgument(values, RUN_OPTIONS) ? values.pop() : {};
  for (const name of Object.keys(options))
    if (!RUN_OPTIONS.includes(name))
      throw new ArgumentError(`after its arguments, run takes {${RUN_OPTIONS}}, not '${name}'`);
  return options;
}

/**
 * The structures of a module that has any.
 * @param {import('./manifest.js').Manifest} manifest
 */
export async function readStructures(manifest) {
  if (manifest.structure != null || manifest.parameters.some(({ name }) => name.includes('.')))
    return new (await file('structures', () => import('./arrays/structures.js'))).Structures(manifest);
}

/**
 * Arrays by the names of the outputs that they are.
 * @param {Leaf[]} results
 * @param {any[]} arrays
 * @returns {Record<string, any>}
 */
export const byName = (results, arrays) =>
  Object.fromEntries(results.filter(({ kind }) => kind === 'output').map(({ name }, i) => [name, arrays[i]]));

/** A module ready to run. It runs one thing at a time. */
export class Executable {
  /**
   * @type {{memory: WebAssembly.Memory, run: () => number, init: (index: number) => void, step: (pc: number) =>
   *   number}}
   */
  #exports;
  #buffer;
  /** @type {Place[]} */
  #inputs = [];
  /** @type {Place[]} */
  #outputs;
  /** @type {{leaf: Leaf}[]} */
  #held = [];
  /** @type {Map<string, TypedArray>} */
  #weights = new Map();
  /** @type {Set<string>} */
  #unset = new Set();
  #converter;
  #structures;
  #requests;
  #named;
  #budget;
  /** @type {unknown} */
  #failure;
  /** @type {boolean | undefined} */
  #busy;

  /**
   * Use `load`.
   * @param {import('./manifest.js').Manifest} manifest
   * @param {{exports: any}} instance with the weights that files hold
   * @param {{given?: Set<string>, converter?: Converter, structures?: Structures, serve?: (buffer: ArrayBuffer) =>
   *   import('./requests/requests.js').Requests, named?: boolean, budget?: import('./limits/budget.js').Budget}}
   *   [parts]
   */
  constructor(
    manifest,
    instance,
    { given, converter = { accept, give: (_, array) => array }, structures, serve, named, budget } = {},
  ) {
    this.#converter = converter;
    this.#structures = structures;
    this.#named = named;
    this.#budget = budget;
    /** The artifact's manifest: its name, parameters, results, memory. @readonly */
    this.manifest = manifest;
    this.#exports = instance.exports;
    this.#buffer = /** @type {ArrayBuffer} */ (this.#exports.memory.buffer);
    this.#requests = serve?.(this.#buffer);
    for (const leaf of manifest.parameters) {
      if (leaf.kind === 'input') this.#inputs.push(new Place(leaf, this.#buffer));
      else this.#held.push({ leaf });
      if (leaf.kind === 'weight' && !given?.has(leaf.name)) this.#unset.add(leaf.name);
    }
    this.#outputs = manifest.results
      .filter((leaf) => leaf.kind === 'output')
      .map((leaf) => new Place(leaf, this.#buffer));
    // Where files were poured this was done before their weights, which may need it.
    if (!given) for (const { kind, index, name } of manifest.inits) if (kind === 'segment') this.#prepare(index, name);
  }

  /** @param {number} index @param {string} name */
  #prepare(index, name) {
    this.#guard(() => this.#exports.init(index), `preparing the weights of '${name}'`);
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
   * Runs the module on one array for each input, or on one object that maps their names to arrays; returns copies of
   * the outputs. Where names have several parts, as "params.w" and "params.b.0", structures serve too, by name or by
   * position: `run({x, params})` or `run(params, x)` with `params = {w, b: [b0]}`.
   * Arrays are row-major; typed arrays must be of the parameter's type, plain numbers and arrays are converted when
   * nothing is lost. After them may come `{out}`, a list of a typed array for each output, into which it is written: no
   * copy is returned then, and a run that fails leaves them as they were. And `{infeed, outfeed, send, recv}`: what
   * goes between the run and its host, see requests/feeds.js.
   * @param {...any} values
   * @returns {any} a typed array for each output, in a list or, with the option `named` here or of `load`, in an object
   *   by name
   */
  run(...values) {
    const begun = this.#begin(values);
    while (this.#waits()) this.#requests?.serve();
    return this.#results(begun);
  }

  /**
   * Runs on the arguments of the function that the module was lowered from, and gives what that returns, in the same
   * structures. The arguments come in their order, or all in one object by name; those that stay in the module as
   * weights or states are left out, and results that do are null. Tuples are lists, and dataclasses and their like
   * objects. ArgumentError for modules that describe no structure.
   * @param {...any} values
   * @returns {any}
   */
  call(...values) {
    return this.#called().call(values, (arrays, options) => this.run(...arrays, options));
  }

  /**
   * As `call`, for what needs `runAsync`; `{signal}` and the like may follow the arguments.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async callAsync(...values) {
    return this.#called().call(values, (arrays, options) => this.runAsync(...arrays, options));
  }

  #called() {
    if (this.#structures) return this.#structures;
    throw new ArgumentError(`'${this.manifest.name}' describes no structure: use run`);
  }

  /**
   * As `run`, for modules whose host gives promises (functions, feeds), and for runs that an AbortSignal may end:
   * `{signal}` after the arguments. Those pause now and then, so a page stays alive; an aborted run leaves states as
   * they were before it.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async runAsync(...values) {
    const { inSlices } =
      this.#budget || values.at(-1)?.signal ? await file('slices', () => import('./limits/slices.js')) : {};
    const begun = this.#begin(values);
    const go = async (/** @type {AbortSignal | undefined} */ signal) => {
      if (signal && this.manifest.steps.length) {
        this.#busy = true;
        await /** @type {any} */ (inSlices)(
          (/** @type {number} */ pc) => this.#stepFrom(pc, signal),
          signal,
          this.#buffer,
          this.#held,
          () => {
            this.#busy = false;
            this.#requests?.forget();
          },
        );
      } else while (this.#waits()) await this.#requests?.serveAsync(signal);
    };
    await (this.#budget ? this.#budget.telling(begun.signal, go) : go(begun.signal));
    return this.#results(begun);
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
    const next = this.#guard(() => this.#exports.step(pc));
    return next < -1 && this.#requests ? (wait ? this.#requests.serveAsync(wait) : this.#requests.serve()) : next;
  }

  /**
   * Runs the module on what lies in the memory of its inputs, and leaves the outputs in theirs: see `input` and
   * `output`. After the first run it allocates nothing, as code of an AudioWorklet must not.
   */
  runInPlace() {
    this.#refuseUnready();
    this.#requests?.begin({});
    while (this.#waits()) this.#requests?.serve();
  }

  /** @param {RunOptions} options */
  #results({ out, named }) {
    const targets = this.#targets(out);
    // One of them may lie where another result does.
    const apart = targets?.some((target, i) => this.#isAside(this.#outputs[i], target));
    const made = this.#outputs.map((place, i) =>
      this.#converter.give(place.leaf, place.read(apart ? undefined : targets?.[i])),
    );
    if (apart) targets?.forEach((target, i) => target.set(made[i]));
    const arrays = out ?? made;
    return named ? byName(this.results, arrays) : arrays;
  }

  /** Returns true if an array is memory of the module, but not this place. @param {Place} place @param {any} array */
  #isAside(place, array) {
    return array.buffer === this.#buffer && !place.holds(array);
  }

  /**
   * Returns the arrays that the outputs are to be written to. Throws ArgumentError if they do not fit.
   * @param {any[]} [out]
   */
  #targets(out) {
    const places = this.#outputs;
    if (out && out.length !== places.length)
      throw new ArgumentError(
        `out is a list of ${counted(places.length, 'array')}, one for each result, not ${out.length}`,
      );
    return out?.map((target, i) => {
      const { leaf } = places[i];
      this.#refuseUnplain(leaf, 'out');
      return accept(leaf, ArrayBuffer.isView(target) ? target : null, `out: result '${leaf.name}'`);
    });
  }

  /** @param {Leaf} leaf @param {string} what */
  #refuseUnplain({ name, raw }, what) {
    if (this.#converter.physical || raw.sizes)
      throw new ArgumentError(`'${name}': ${what} goes with logical arrays of fixed sizes only`);
  }

  /**
   * The memory of an input, as a typed array that is to be written before a run; an argument that is this array itself
   * is not copied. What is written stays until it is written anew. All such arrays end, with a length of 0, with
   * `dispose`.
   * @param {string} name
   * @returns {any} a typed array
   */
  input(name) {
    return this.#view(this.#inputs, name, 'argument');
  }

  /**
   * The memory of an output, as a typed array to be read until the next call of any method. As an element of `out` it
   * is not copied either.
   * @param {string} name
   * @returns {any} a typed array
   */
  output(name) {
    return this.#view(this.#outputs, name, 'result');
  }

  /** @param {Place[]} places @param {string} name @param {string} what */
  #view(places, name, what) {
    this.#refuseFailed();
    const { leaf, view, order } = this.#find(places, what, name);
    this.#refuseUnplain(leaf, 'a view');
    if (order) throw new ArgumentError(`'${name}': a view needs a row-major layout`);
    return view.subarray();
  }

  /** Runs on to the end, or to a request. */
  #waits() {
    const outcome = this.#guard(this.#exports.run);
    if (outcome && !this.#requests?.made(outcome)) throw new RunError(`'${this.manifest.name}' stated no requests`);
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
    /** @type {[string, number][]} */
    const spent = [];
    for (let pc = names.length ? 0 : -1; pc >= 0; ) {
      const current = pc;
      const begin = clock.now();
      pc = this.#stepFrom(current);
      (spent[current] ??= [names[current], 0])[1] += (clock.now() - begin) / 1000;
    }
    this.#requests?.forget();
    return spent.filter(Boolean); // which skips what has never run
  }

  /**
   * Sets a weight, or the state that the next run begins with. A name that others begin with stands for all of them:
   * `set('params', {w, b})` sets "params.w" and "params.b", or neither if one is missing or does not fit.
   * @param {string} name
   * @param {any} value an array, or a structure of them
   */
  set(name, value) {
    const arrays = [...(this.#structures?.parts(name, value) ?? [[name, value]])].map(([name, value]) => {
      const leaf = this.#leaf(name);
      const array = this.#converter.accept(leaf, value, `${leaf.kind} '${name}'`);
      // Setting one writes into the memory that others may be views of.
      return /** @type {const} */ ([leaf, array.buffer === this.#buffer ? array.slice() : array]);
    });
    this.#refuseFailed();
    for (const [leaf, array] of arrays) this.#put(leaf, array);
  }

  /** @param {Leaf} leaf @param {any} array */
  #put(leaf, array) {
    const { name } = leaf;
    if (leaf.init == null) {
      new Place(leaf, this.#buffer).write(array);
    } else {
      const { index, staging, bytes, part } = this.manifest.inits[leaf.init];
      // The staging area need not be aligned for the type, so the weight is laid out beside it first.
      const laid = new Place(leaf, new ArrayBuffer(bytes), 0);
      laid.write(array);
      this.#weights.set(name, array.slice());
      let call = index;
      let at = 0;
      do {
        new Uint8Array(this.#buffer).set(new Uint8Array(laid.view.buffer, at, Math.min(part, bytes - at)), staging);
        this.#prepare(call++, name);
      } while ((at += part) < bytes);
    }
    this.#unset.delete(name);
  }

  /**
   * A copy of a weight as it was set, or of a state as the last run left it; of a name that others begin with, all of
   * them in the structure that the function has there, or where none is known an object by what follows in their names:
   * both as `set` takes them.
   * @param {string} name
   * @returns {any} a typed array, or a structure of them
   */
  get(name) {
    const below = this.#structures?.get(name, (own) => this.get(own));
    if (below) return below;
    const leaf = this.#leaf(name);
    this.#refuseFailed();
    if (this.#unset.has(name)) throw new ArgumentError(`weight '${name}' has not been set`);
    const weight = this.#weights.get(name);
    if (leaf.init != null && !weight)
      throw new ArgumentError(`weight '${name}' came from a file and is kept packed: it cannot be read back`);
    return this.#converter.give(leaf, weight?.slice() ?? new Place(leaf, this.#buffer).read());
  }

  /** Lets go of the module and its memory; whatever is called after that throws. */
  dispose() {
    // Views that are held have no elements from now on, rather than those of a memory that nobody runs on. That of
    // threads ends these.
    this.#exports?.memory.grow(0);
    this.#failure = DISPOSED;
    this.#exports = this.#buffer = this.#requests = /** @type {any} */ (undefined);
    this.#inputs = this.#outputs = [];
    this.#weights.clear();
  }

  /**
   * @template {{leaf: Leaf}} T
   * @param {T[]} places
   * @param {string} what
   * @param {string} name
   * @returns {T}
   */
  #find(places, what, name) {
    const place = places.find(({ leaf }) => leaf.name === name);
    if (place) return place;
    const known = places.slice(0, 8).map(({ leaf }) => leaf.name);
    throw new ArgumentError(
      `'${this.manifest.name}' has no ${what} called '${name}' (known: ${known.join(', ') || 'it has none'})`,
    );
  }

  /** @param {string} name */
  #leaf(name) {
    return this.#find(this.#held, 'weight or state', name).leaf;
  }

  /**
   * Takes the options and the arguments of a run.
   * @param {any[]} values
   */
  #begin(values) {
    this.#refuseUnready();
    const { out, signal, named = this.#named, ...feeds } = takeOptions(values, !this.#inputs.length, this.#structures);
    signal?.throwIfAborted();
    this.#targets(out);
    if (this.#requests) this.#requests.begin(feeds);
    else
      for (const kind of Object.keys(feeds))
        throw new ArgumentError(`'${this.manifest.name}' was given ${kind}, but there is no ${kind} in it`);
    this.#write(values);
    return { out, signal, named };
  }

  /** @param {any[]} values */
  #write(values) {
    const places = this.#inputs;
    const [first] = values;
    if (this.#structures) values = this.#structures.flat(values);
    else if (values.length === 1 && isPlain(first)) values = this.#byName(first);
    if (values.length !== places.length) {
      const names = places
        .slice(0, 8)
        .map(({ leaf }) => `${leaf.name}: ${describe(leaf)}`)
        .join(', ');
      throw new ArgumentError(
        `'${this.manifest.name}' takes ${counted(places.length, 'argument')} (${names}), got ${values.length}`,
      );
    }
    const arrays = places.map((place, i) => this.#accept(place, values[i], `argument ${i} ('${place.leaf.name}')`));
    places.forEach((place, i) => place.write(arrays[i]));
  }

  /**
   * A value as an array that nothing is written over before it is read.
   * @param {Place} place
   * @param {any} value
   * @param {string} what
   */
  #accept(place, value, what) {
    const array = this.#converter.accept(place.leaf, value, what);
    return this.#isAside(place, array) ? array.slice() : array;
  }

  /** @param {Record<string, any>} named */
  #byName(named) {
    for (const name of Object.keys(named)) this.#find(this.#inputs, 'argument', name);
    return this.#inputs.map(({ leaf: { name } }) => {
      if (!Object.hasOwn(named, name)) throw new ArgumentError(`argument '${name}' is missing`);
      return named[name];
    });
  }

  #refuseUnready() {
    this.#refuseFailed();
    if (!this.#unset.size) return;
    const [name] = this.#unset;
    throw new ArgumentError(`weight '${name}' has not been set: call exe.set('${name}', ...) first`);
  }

  #refuseFailed() {
    const { name } = this.manifest;
    if (this.#failure === DISPOSED) throw new RunError(`'${name}' has been disposed of: load it again`);
    if (this.#busy) throw new RunError(`'${name}' is running: await that first`);
    this.#requests?.refuseBusy();
    if (this.#failure) throw new RunError(`'${name}' failed before: load it again`, { cause: this.#failure });
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
      const where = stage ?? `in step ${pc} of ${steps.length}, ${steps[pc] ?? 'unknown'}`;
      const { message, cause } = /** @type {Error} */ (error);
      // What has a cause says what to do.
      throw new RunError(`'${name}' failed ${where}: ${message}${cause ? '' : '; try xla-wasm check'}`, {
        cause: error,
      });
    }
  }
}
