// Global arrays, of which each device has a block: cut before a run, put together after it. Mirrors
// xla_wasm/host/shards.py.

import { TYPES, accept, counted } from '../arrays.js';
import { ArgumentError, UnsupportedError } from '../errors.js';
import { Fields, fail, isSize, show } from '../manifest.js';
import { MAX_DEVICES } from './grid.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {{dimensions: number[], starts: number[][]}} Shards what each device has of a global array */

/** @param {number[]} sizes */
const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

/**
 * Where the blocks of the devices begin, which make up a global array together; null if nobody says so.
 * @param {Fields} item
 * @returns {Shards | null}
 */
export function readShards(item) {
  if (item.raw.shards == null) return null;
  const at = item.object('shards');
  const own = /** @type {number[]} */ (item.raw.dimensions);
  const dimensions = /** @type {number[]} */ (at.list('dimensions', isSize));
  if (dimensions.length !== own.length || dimensions.some((size, d) => (own[d] ? size % own[d] : size))) {
    at.fail('dimensions', `${show(dimensions)} does not divide into blocks of ${show(own)}`);
  }
  const counts = dimensions.map((size, d) => (own[d] ? size / own[d] : 1));
  const starts = /** @type {number[][]} */ (
    at.list(
      'starts',
      (start) =>
        Array.isArray(start) &&
        start.length === own.length &&
        start.every((n, d) => isSize(n) && (own[d] ? n % own[d] === 0 && n < dimensions[d] : n === 0)),
    )
  );
  if (starts.length > MAX_DEVICES || new Set(starts.map(String)).size !== product(counts)) {
    at.fail('starts', `blocks of ${show(own)} from there on do not make up ${show(dimensions)}`);
  }
  return { dimensions, starts };
}

/** A global array, whose blocks lie on several devices. */
class GlobalArray {
  /**
   * @param {Leaf} leaf
   * @param {Shards} shards
   */
  constructor(leaf, { dimensions, starts }) {
    const { array, components } = TYPES[leaf.element_type];
    this.leaf = { ...leaf, dimensions, bytes: product(dimensions) * components * array.BYTES_PER_ELEMENT };
    this.starts = starts;
    this.components = components;
    this.own = leaf.dimensions;
    /** True if devices have different parts of it. */
    this.isDivided = String(dimensions) !== String(leaf.dimensions);
  }

  /**
   * The block of each device, all of them copies.
   * @param {any} value
   * @param {string} what
   */
  split(value, what) {
    const whole = accept(this.leaf, value, what);
    return this.starts.map((start) => {
      if (!this.isDivided) return whole;
      const block = new whole.constructor(product(this.own) * this.components);
      this.#rows(start, (at, place, length) => block.set(whole.subarray(at, at + length), place));
      return block;
    });
  }

  /**
   * The whole, from the block of each device. Of blocks that several devices have, the first one counts.
   * @param {any[]} blocks
   */
  join(blocks) {
    if (!this.isDivided) return blocks[0];
    const whole = new blocks[0].constructor(product(this.leaf.dimensions) * this.components);
    for (let d = blocks.length - 1; d >= 0; d--) {
      this.#rows(this.starts[d], (at, place, length) => whole.set(blocks[d].subarray(place, place + length), at));
    }
    return whole;
  }

  /**
   * Calls `move` for every run of elements that lie together in both: where it begins in the whole, where in the block,
   * and its length.
   * @param {number[]} start
   * @param {(at: number, place: number, length: number) => void} move
   */
  #rows(start, move) {
    const { own, components } = this;
    const { dimensions } = this.leaf;
    const length = (own.at(-1) ?? 1) * components;
    const count = product(own.slice(0, -1));
    if (!length) return;
    for (let row = 0; row < count; row++) {
      let at = (start.at(-1) ?? 0) * components;
      let stride = (dimensions.at(-1) ?? 1) * components;
      for (let d = own.length - 2, rest = row; d >= 0; d--) {
        at += (start[d] + (rest % own[d])) * stride;
        rest = Math.floor(rest / own[d]);
        stride *= dimensions[d];
      }
      move(at, row * length, length);
    }
  }
}

/**
 * The global arrays of leaves whose blocks the devices have, by the manifest's entry; what nothing is said of is not
 * among them.
 * @param {import('../manifest.js').Manifest} manifest
 * @param {number} devices
 * @returns {Map<Leaf, GlobalArray>}
 */
export function globalArrays(manifest, devices) {
  return new Map(
    /** @type {const} */ (['parameters', 'results']).flatMap((key) =>
      manifest[key].flatMap((leaf, i) => {
        const found = readShards(new Fields(leaf.raw, `${key}[${i}]`));
        if (found && found.starts.length !== devices)
          fail(
            `${key}[${i}].shards.starts`,
            `there ${found.starts.length === 1 ? 'is' : 'are'} ${found.starts.length}, for ` +
              `${counted(devices, 'device')}`,
          );
        return found ? /** @type {[Leaf, GlobalArray][]} */ ([[leaf, new GlobalArray(leaf, found)]]) : [];
      }),
    ),
  );
}

/**
 * How the global arguments of a program are cut, and its results put together.
 * @param {import('../manifest.js').Manifest} manifest
 * @param {number} devices
 */
export function shards(manifest, devices) {
  const { name, undivided } = manifest;
  const known = globalArrays(manifest, devices);
  if (undivided) throw new UnsupportedError(`'${name}' runs on one device: ${undivided}`);
  const [inputs, outputs] = [
    manifest.parameters.filter((leaf) => leaf.kind === 'input'),
    manifest.results.filter((leaf) => leaf.kind === 'output'),
  ].map((leaves) =>
    leaves.map((leaf) => {
      const whole = known.get(leaf);
      if (whole) return whole;
      const what = `${leaf.kind === 'input' ? 'argument' : 'result'} '${leaf.name}'`;
      throw new ArgumentError(
        `'${name}' does not say which part of a global array ${what} is: call runReplicated with a list of ` +
          `arguments for each device`,
      );
    }),
  );
  return { inputs, outputs };
}
