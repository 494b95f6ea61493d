// What a module asks of its host while it runs: `load` takes this in only for modules that make requests, or are for
// several devices. Here are functions of the host that a module calls; feeds.js has infeed and the like, exchange.js
// what goes to other devices. Mirrors xla_wasm/host/calls.py.

import { Place, accept, counted, describe } from '../arrays.js';
import { ArgumentError, ArtifactError, RunError, XlaWasmError } from '../errors.js';
import { Fields, readLeaf } from '../manifest.js';
import { REQUESTS, REQUESTS_OPERANDS, REQUESTS_RESULTS } from '../manifest_fields.js';
import { order } from '../arrays/orders.js';
import { file } from '../source.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

/**
 * A function of the host: it gets a row-major typed array for every operand, then `{opaque, name}` of the call, and
 * returns a typed array (or an array of them where the module wants several results), or a promise of that.
 * @typedef {(...operands: any[]) => any} HostFunction
 */

/**
 * A request on one instance: `ask` reads what it sends and gives what comes, or a promise of that; `take` writes it.
 * @typedef {object} Call
 * @property {string} what how messages name it
 * @property {() => any} ask
 * @property {(given: any) => void} take
 */

/** @typedef {(buffer: ArrayBuffer) => Call} Binding a request of a manifest, for the memory of an instance */

/** @typedef {import('../executor.js').Converter} Converter */

/**
 * A request that takes and gives whole arrays.
 * @typedef {{name: string, target: string, opaque: string, operands: Leaf[], results: Leaf[], place?: string, format?:
 *   string}} Request place and format: of a callback
 */

/** @typedef {import('../manifest.js').Leaf} Leaf */

/**
 * Options of `load` that requests need, and the device that this one is among others.
 * @typedef {object} Served
 * @property {Record<string, HostFunction>} [customCalls]
 * @property {import('../devices/exchange.js').Device} [device]
 * @property {boolean} [physical]
 */

const WAITING = 1;
const PLAIN = { accept, give: (/** @type {Leaf} */ _, /** @type {any} */ array) => array };

/**
 * The requests of a manifest, checked, for the memory of an instance.
 * @param {Manifest} manifest
 * @param {Served} served
 */
export async function requests(manifest, { customCalls = {}, device, physical }) {
  const items = manifest.requests.map((raw, i) => new Fields(raw, `requests[${i}]`, REQUESTS));
  const kinds = items.map((item) => item.text('kind'));
  const read = items.map((item, i) => (kinds[i] === 'exchange' ? undefined : readRequest(item, manifest.memoryBytes)));
  const calls = kinds.map((kind) => kind === 'custom_call' || kind === 'callback');
  const callbacks = kinds.includes('callback') ? await file('callbacks', () => import('./callbacks.js')) : undefined;
  const feeds = kinds.some((kind, i) => kind !== 'exchange' && !calls[i])
    ? new (await file('feeds', () => import('./feeds.js'))).Feeds(manifest.name)
    : undefined;
  const leaves = (/** @type {boolean} */ called) =>
    read.flatMap((item, i) => (item && called === calls[i] ? [...item.operands, ...item.results] : []));
  // Functions get arrays as such; what is fed goes as arguments and results do.
  const [forCalls, forFeeds] = [await converters(leaves(true)), await converters(leaves(false), physical)];
  const exchanges =
    manifest.devices || kinds.includes('exchange')
      ? await file('exchange', () => import('../devices/exchange.js'))
      : undefined;
  const own = exchanges?.present(manifest, device);
  const bindings = items.map((item, i) => {
    const [kind, request] = [/** @type {import('./feeds.js').Kind} */ (kinds[i]), read[i]];
    if (!request) return /** @type {any} */ (own).exchange(item);
    if (calls[i]) {
      const made = kinds[i] === 'callback' ? callbacks : undefined;
      const run = made ? made.callback(request, customCalls) : named(request, manifest.name, customCalls);
      return customCall(
        request,
        made?.callbackName(request) ?? `custom call '${request.target}' ('${request.name}')`,
        run,
        forCalls,
      );
    }
    return /** @type {import('./feeds.js').Feeds} */ (feeds).bind(kind, request, forFeeds);
  });
  return (/** @type {ArrayBuffer} */ buffer) => {
    own?.place(buffer);
    const check = (/** @type {import('./feeds.js').FeedOptions} */ options) => {
      own?.check();
      if (feeds) feeds.begin(options);
      else refuseFeeds(manifest.name, options);
    };
    return new Requests(
      manifest,
      buffer,
      bindings.map((bind) => bind(buffer)),
      check,
    );
  };
}

/**
 * How the arrays of requests come and go, for the memory of an instance.
 * @param {Leaf[]} leaves
 * @param {boolean} [physical]
 * @returns {Promise<(buffer: ArrayBuffer) => Converter>}
 */
async function converters(leaves, physical) {
  const manifest = /** @type {Manifest} */ (/** @type {unknown} */ ({ parameters: leaves, results: [] }));
  if (physical) {
    const converter = (await file('layouts', () => import('../arrays/layouts.js'))).physical(manifest);
    return () => converter;
  }
  if (!leaves.some((leaf) => leaf.raw.sizes !== undefined)) return () => PLAIN;
  const { dynamic } = await file('dynamic', () => import('../arrays/dynamic.js'));
  return (buffer) => dynamic(manifest, buffer);
}

/**
 * @param {string} module
 * @param {Record<string, any>} options of a run
 */
function refuseFeeds(module, options) {
  for (const kind of ['infeed', 'outfeed', 'send', 'recv'])
    if (options[kind] != null) throw new ArgumentError(`'${module}' was given ${kind}, but there is no ${kind} in it`);
}

/**
 * @param {Fields} item
 * @param {number} memory
 * @returns {Request}
 */
function readRequest(item, memory) {
  const read = (/** @type {Fields} */ leaf) => readLeaf(leaf, memory);
  const operands = item.objects('operands', read, REQUESTS_OPERANDS);
  const results = item.objects('results', read, REQUESTS_RESULTS);
  order([...operands, ...results]);
  const [place, format] = item.raw.kind === 'callback' ? [item.text('place'), item.text('format')] : [];
  return {
    name: item.text('name'),
    target: item.text('target'),
    opaque: item.text('opaque'),
    operands,
    results,
    place,
    format,
  };
}

/**
 * The function that serves a custom call.
 * @param {Request} request
 * @param {string} module
 * @param {Record<string, HostFunction>} functions
 */
function named({ target, operands, results }, module, functions) {
  const run = Object.hasOwn(functions, target) ? functions[target] : undefined;
  if (typeof run === 'function') return run;
  const [takes, gives] = [operands, results].map((leaves) => leaves.map(describe).join(', '));
  throw new ArgumentError(
    `'${module}' calls '${target}', which takes (${takes}) and gives (${gives}): pass a function for it, ` +
      `load(source, {customCalls: {'${target}': ...}})`,
  );
}

/**
 * @param {Request} request
 * @param {string} what how messages name it
 * @param {HostFunction} run
 * @param {(buffer: ArrayBuffer) => Converter} converters
 * @returns {Binding}
 */
function customCall({ name, opaque, operands, results }, what, run, converters) {
  return (buffer) => {
    const converter = converters(buffer);
    const [given, wanted] = [operands, results].map((leaves) => leaves.map((leaf) => new Place(leaf, buffer)));
    const ask = () => run(...given.map((place) => converter.give(place.leaf, place.read())), { opaque, name });
    return { what, ask, take: (arrays) => write(wanted, arrays, what, converter) };
  };
}

/**
 * Writes what a function gave.
 * @param {Place[]} results
 * @param {any} given
 * @param {string} what
 * @param {Converter} converter
 */
function write(results, given, what, converter) {
  let arrays = given;
  if (results.length === 1 && ArrayBuffer.isView(arrays)) arrays = [arrays];
  arrays ??= [];
  if (!Array.isArray(arrays) || arrays.length !== results.length) {
    throw new ArgumentError(
      `${what} must return ${counted(results.length, 'typed array')} ` +
        `(${results.map(({ leaf }) => describe(leaf)).join(', ')})`,
    );
  }
  const accepted = results.map(({ leaf }, i) => converter.accept(leaf, arrays[i], `result ${i} of ${what}`));
  results.forEach((place, i) => place.write(accepted[i]));
}

/** Serves the requests of one instance. */
export class Requests {
  #manifest;
  #record;
  #calls;
  #check;
  #busy = false;

  /**
   * @param {Manifest} manifest
   * @param {ArrayBuffer} buffer
   * @param {Call[]} calls
   * @param {(options: any) => void} check throws if the module cannot run here, or with the options of a run
   */
  constructor(manifest, buffer, calls, check) {
    this.#manifest = manifest;
    this.#record = new DataView(buffer, manifest.request, 8);
    this.#calls = calls;
    this.#check = check;
  }

  /**
   * Before a run.
   * @param {import('../executor.js').RunOptions} options
   */
  begin(options) {
    this.#check(options);
  }

  /** @param {number} outcome what `run` gave */
  made(outcome) {
    return outcome === WAITING && this.#calls.length > 0;
  }

  /** The next run begins anew. */
  forget() {
    this.#record.setUint32(4, 0, true);
  }

  refuseBusy() {
    if (this.#busy)
      throw new RunError(
        `'${this.#manifest.name}' waits for a function of its host: await runAsync before the next call`,
      );
  }

  /**
   * Serves the request that the run waits for.
   * @returns {number} the step to go on with
   */
  serve() {
    const call = this.#asked();
    return this.#orForget(call, () => {
      const given = call.ask();
      if (typeof given?.then === 'function')
        throw new RunError(`${call.what} gave a promise: call runAsync instead of run`);
      return this.#take(call, given);
    });
  }

  /**
   * As `serve`; meanwhile nothing else may run. An abort ends the waiting.
   * @param {AbortSignal} [signal]
   * @returns {Promise<number>}
   */
  async serveAsync(signal) {
    const call = this.#asked();
    this.#busy = true;
    let stop = () => {};
    try {
      const aborted = new Promise((_, reject) => (stop = () => reject(signal?.reason)));
      signal?.addEventListener('abort', stop);
      const given = await (signal ? Promise.race([aborted, call.ask()]) : call.ask());
      return this.#orForget(call, () => this.#take(call, given));
    } catch (error) {
      if (signal?.aborted) {
        this.forget();
        throw signal.reason;
      }
      return this.#orForget(call, () => {
        throw error;
      });
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#busy = false;
    }
  }

  #asked() {
    const number = this.#record.getUint32(0, true);
    const call = this.#calls[number];
    if (!call) throw new ArtifactError(`the module makes request ${number} of ${this.#calls.length}`);
    return call;
  }

  /**
   * @param {Call} call
   * @param {any} given
   */
  #take(call, given) {
    call.take(given);
    return this.#record.getUint32(4, true);
  }

  /**
   * If the work fails, the run is over, but the next one may begin.
   * @template T
   * @param {Call} call
   * @param {() => T} work
   * @returns {T}
   */
  #orForget({ what }, work) {
    try {
      return work();
    } catch (error) {
      this.forget();
      if (error instanceof XlaWasmError) throw error;
      throw new RunError(`${what} failed: ${error}`, { cause: error });
    }
  }
}
