// Functions of the host that a module calls: `load` takes this in only for modules that make requests. Mirrors xla_wasm/host/calls.py.

import { Place, accept, describe } from '../arrays.js';
import { ArgumentError, ArtifactError, RunError, XlaWasmError } from '../errors.js';
import { Fields, readLeaf } from '../manifest.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

/**
 * A function of the host: it gets a row-major typed array for every operand, then `{opaque, name}` of the call, and returns a
 * typed array (or an array of them where the module wants several results), or a promise of that.
 * @typedef {(...operands: any[]) => any} HostFunction
 */

/**
 * Where the arrays of a request lie, and the function that serves it.
 * @typedef {object} Call
 * @property {{opaque: string, name: string}} about
 * @property {HostFunction} run
 * @property {Place[]} operands
 * @property {Place[]} results
 * @property {string} what
 */

const WAITING = 1;

/**
 * The requests of a manifest, checked, for the memory of an instance.
 * @param {Manifest} manifest
 * @param {Record<string, HostFunction>} [functions]
 */
export function requests(manifest, functions = {}) {
  const listed = manifest.requests.map((raw, i) => {
    const item = new Fields(raw, `requests[${i}]`);
    item.text('kind', ['custom_call']);
    const [name, target, opaque] = ['name', 'target', 'opaque'].map((key) => item.text(key));
    const [operands, results] = ['operand', 'result'].map((kind) => item.objects(`${kind}s`, (leaf) => readLeaf(leaf, manifest.memoryBytes, [kind], true)));
    const run = Object.hasOwn(functions, target) ? functions[target] : undefined;
    if (typeof run !== 'function') {
      const [takes, gives] = [operands, results].map((leaves) => leaves.map(describe).join(', '));
      throw new ArgumentError(
        `'${manifest.name}' calls '${target}', which takes (${takes}) and gives (${gives}): pass a function for it, load(source, {customCalls: {'${target}': ...}})`,
      );
    }
    return { about: { opaque, name }, run, operands, results, what: `custom call '${target}' ('${name}')` };
  });
  return (/** @type {ArrayBuffer} */ buffer) => {
    const placed = (/** @type {import('../manifest.js').Leaf[]} */ leaves) => leaves.map((leaf) => new Place(leaf, buffer));
    const calls = listed.map((call) => ({ ...call, operands: placed(call.operands), results: placed(call.results) }));
    return new Requests(manifest, buffer, calls);
  };
}

/** Serves the requests of one instance. */
export class Requests {
  #manifest;
  #record;
  #calls;
  #busy = false;

  /**
   * @param {Manifest} manifest
   * @param {ArrayBuffer} buffer
   * @param {Call[]} calls
   */
  constructor(manifest, buffer, calls) {
    this.#manifest = manifest;
    this.#record = new DataView(buffer, manifest.request, 8);
    this.#calls = calls;
  }

  /** @param {number} outcome what `run` gave */
  made(outcome) {
    return outcome === WAITING;
  }

  /** The next run begins anew. */
  forget() {
    this.#record.setUint32(4, 0, true);
  }

  refuseBusy() {
    if (this.#busy) throw new RunError(`'${this.#manifest.name}' waits for a function of its host: await runAsync before the next call`);
  }

  /**
   * Serves the request that the run waits for.
   * @returns {number} the step to go on with
   */
  serve() {
    const call = this.#asked();
    return this.#orForget(call, () => {
      const given = this.#run(call);
      if (typeof given?.then === 'function') throw new RunError(`${call.what} gave a promise: call runAsync instead of run`);
      return this.#write(call, given);
    });
  }

  /**
   * As `serve`; meanwhile nothing else may run.
   * @returns {Promise<number>}
   */
  async serveAsync() {
    const call = this.#asked();
    this.#busy = true;
    try {
      const given = await this.#run(call);
      return this.#orForget(call, () => this.#write(call, given));
    } catch (error) {
      return this.#orForget(call, () => {
        throw error;
      });
    } finally {
      this.#busy = false;
    }
  }

  #asked() {
    const number = this.#record.getUint32(0, true);
    const call = this.#calls[number];
    if (!call) throw new ArtifactError(`the module makes request ${number} of ${this.#calls.length}`);
    return call;
  }

  /** @param {Call} call */
  #run({ run, operands, about }) {
    return run(...operands.map((place) => place.read()), { ...about });
  }

  /**
   * Writes what a function gave.
   * @param {Call} call
   * @param {any} given
   */
  #write({ results, what }, given) {
    let arrays = given;
    if (results.length === 1 && ArrayBuffer.isView(arrays)) arrays = [arrays];
    arrays ??= [];
    if (!Array.isArray(arrays) || arrays.length !== results.length) {
      throw new ArgumentError(`${what} must return ${results.length} typed arrays (${results.map(({ leaf }) => describe(leaf)).join(', ')})`);
    }
    const accepted = results.map(({ leaf }, i) => accept(leaf, arrays[i], `result ${i} of ${what}`));
    results.forEach((place, i) => place.write(accepted[i]));
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
