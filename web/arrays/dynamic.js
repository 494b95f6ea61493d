// Arrays with dynamic dimensions: callers pass and get the part that counts, the module has room for the bounds and the
// sizes beside it. The loader imports it when a module has such arrays. Mirrors xla_wasm/host/dynamic.py.

import { TYPES, accept, counted } from '../arrays.js';
import { ArgumentError, ArtifactError } from '../errors.js';
import { Fields, isSize, show } from '../manifest.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/**
 * @typedef {object} Sizes
 * @property {(number | null)[]} addresses for each dimension where its actual size lies as s32, or null if it is static
 * @property {number[]} least the least size of each dimension
 */

/** @param {Leaf} leaf @param {Sizes} sizes */
const describe = ({ element_type, dimensions }, { addresses, least }) =>
  `${element_type}[${dimensions.map((size, d) => shownSize(size, least[d], addresses[d] !== null))}]`;

/**
 * A dimension as messages have it.
 * @param {number} bound
 * @param {number} least
 * @param {boolean} dynamic
 */
export const shownSize = (bound, least, dynamic) => (!dynamic ? bound : least ? `${least}..${bound}` : `<=${bound}`);

/**
 * The least size of each dimension of a leaf.
 * @param {{dimensions: number[], raw: any}} leaf
 * @returns {number[]}
 */
export const leastSizes = ({ dimensions, raw }) =>
  raw.least ?? dimensions.map((bound, d) => (raw.sizes == null || raw.sizes[d] === null ? bound : 0));

/**
 * How arrays with dynamic dimensions come and go; all others as they are.
 * @param {import('../manifest.js').Manifest} manifest
 * @param {ArrayBuffer} buffer the module's memory
 * @returns {import('../executor.js').Converter}
 */
export function dynamic(manifest, buffer) {
  const memory = new DataView(buffer);
  /** @type {Map<Leaf, Sizes>} */
  const dynamics = new Map();
  for (const key of /** @type {const} */ (['parameters', 'results'])) {
    manifest[key].forEach((leaf, i) => {
      if (Object.hasOwn(leaf.raw, 'sizes'))
        dynamics.set(leaf, readSizes(leaf, new Fields(leaf.raw, `${key}[${i}]`), buffer.byteLength));
    });
  }
  return {
    accept(leaf, value, what) {
      const sizes = dynamics.get(leaf);
      if (!sizes) return accept(leaf, value, what);
      const shape = shapeOf(leaf, sizes, value, what);
      const type = TYPES[leaf.element_type];
      const bytes = shape.reduce((product, size) => product * size, type.array.BYTES_PER_ELEMENT * type.components);
      const given = accept({ ...leaf, dimensions: shape, bytes }, value, what);
      const room = new type.array(leaf.bytes / type.array.BYTES_PER_ELEMENT);
      rows(leaf.dimensions, shape, type.components, (from, to, length) =>
        room.set(given.subarray(to, to + length), from),
      );
      sizes.addresses.forEach((address, d) => address !== null && memory.setInt32(address, shape[d], true));
      return room;
    },
    give(leaf, array) {
      const sizes = dynamics.get(leaf);
      if (!sizes) return array;
      const shape = sizes.addresses.map((address, d) => {
        const bound = leaf.dimensions[d];
        const size = address === null ? bound : memory.getInt32(address, true);
        if (size < 0 || size > bound) {
          throw new ArtifactError(
            `the module states size ${size} of dimension ${d} of '${leaf.name}', which is ${describe(leaf, sizes)}`,
          );
        }
        return size;
      });
      const { components } = TYPES[leaf.element_type];
      const part = new array.constructor(shape.reduce((product, size) => product * size, components));
      rows(leaf.dimensions, shape, components, (from, to, length) => part.set(array.subarray(from, from + length), to));
      return Object.assign(part, { shape });
    },
  };
}

/**
 * @param {Leaf} leaf
 * @param {Fields} item
 * @param {number} memory
 * @returns {Sizes}
 */
function readSizes(leaf, item, memory) {
  const rank = leaf.dimensions.length;
  /** @type {(number | null)[]} */
  const addresses = item.list(
    'sizes',
    (size) => size === null || (isSize(size) && size % 4 === 0 && size <= memory - 4),
  );
  if (addresses.length !== rank || addresses.every((size) => size === null)) {
    item.fail('sizes', `expected an address or null for each of ${counted(rank, 'dimension')}, got ${show(addresses)}`);
  }
  if (leaf.kind === 'weight') item.fail('sizes', 'a weight has no dynamic dimensions');
  if (Object.hasOwn(leaf.raw, 'least')) {
    const least = item.list('least', isSize);
    const bounds = leaf.dimensions;
    if (
      least.length !== rank ||
      !bounds.every((bound, d) => (addresses[d] === null ? least[d] === bound : least[d] <= bound))
    )
      item.fail('least', `expected sizes up to the bounds ${show(bounds)}, got ${show(least)}`);
  }
  return { addresses, least: leastSizes(leaf) };
}

/**
 * The actual sizes of an argument: those that its `shape` states, those of nested arrays, or for a typed array of which
 * one dimension is dynamic, those that its length asks for.
 * @param {Leaf} leaf
 * @param {Sizes} sizes
 * @param {any} value
 * @param {string} what
 * @returns {number[]}
 */
function shapeOf(leaf, sizes, value, what) {
  const bounds = leaf.dimensions;
  const free = bounds.map((_, d) => d).filter((d) => sizes.addresses[d] !== null);
  const { components } = TYPES[leaf.element_type];
  /** @type {number[] | undefined} */
  let shape = value?.shape;
  if (shape === undefined && Array.isArray(value)) {
    shape = [];
    for (let d = 0, inner = value; d < bounds.length; d++, inner = inner?.[0]) {
      shape.push(Array.isArray(inner) ? inner.length : free.includes(d) ? 0 : bounds[d]);
    }
  } else if (shape === undefined && free.length === 1) {
    const others = bounds.reduce((product, size, d) => (d === free[0] ? product : product * size), components);
    shape = bounds.map((size, d) => (d !== free[0] ? size : others ? value?.length / others : 0));
  }
  if (
    shape === undefined &&
    (!ArrayBuffer.isView(value) ||
      /** @type {any} */ (value).length === bounds.reduce((product, size) => product * size, components))
  ) {
    shape = bounds;
  }
  if (
    !Array.isArray(shape) ||
    shape.length !== bounds.length ||
    !shape.every((size, d) => Number.isInteger(size) && sizes.least[d] <= size && size <= bounds[d])
  ) {
    throw new ArgumentError(
      `${what} must be ${describe(leaf, sizes)}; got an array of shape [${shape ?? 'unknown'}]; give it its sizes ` +
        `as a property 'shape'`,
    );
  }
  return shape;
}

/**
 * Calls `move` for each row of a part of an array: where it starts in the whole, where in the part, and its length.
 * @param {number[]} bounds
 * @param {number[]} shape
 * @param {number} components
 * @param {(from: number, to: number, length: number) => void} move
 */
function rows(bounds, shape, components, move) {
  const length = (shape.at(-1) ?? 1) * components;
  const count = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  if (!length) return;
  for (let row = 0; row < count; row++) {
    let from = 0;
    let stride = (bounds.at(-1) ?? 1) * components;
    for (let d = shape.length - 2, rest = row; d >= 0; d--) {
      from += (rest % shape[d]) * stride;
      rest = Math.floor(rest / shape[d]);
      stride *= bounds[d];
    }
    move(from, row * length, length);
  }
}
