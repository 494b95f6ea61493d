// Arrays packed into the bytes of a layout and back: tiles, padding, packed elements. Mirrors xla_wasm/hlo/layout.py.
// The loader imports it when a caller wants physical bytes, and not before.

import { TYPES, counted, describe } from '../arrays.js';
import { ArgumentError } from '../errors.js';
import { Fields, MAX_RANK, isSize, show } from '../manifest.js';
import { ARRAY } from '../manifest_fields.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

/**
 * A leaf with all of its layout. A size `'*'` in a tile merges a dimension into the next more minor one.
 * @typedef {import('../manifest.js').Leaf & { layout: Layout }} Leaf
 *
 * @typedef {object} Layout
 * @property {(number | '*')[][]} tiles
 * @property {number} element_size_in_bits
 * @property {number} tail_padding_alignment_in_elements
 * @property {number} dynamic_shape_metadata_prefix_bytes
 * @property {number[]} padded_dimensions
 * @property {string} padding_element the bytes of the element that fills them, in hexadecimal; empty: zero
 *
 * @typedef {{ [K in keyof Layout]: Layout[K] extends number ? K : never }[keyof Layout]} NumberKey
 */

/** @type {Layout} */
const PLAIN = {
  tiles: [],
  element_size_in_bits: 0,
  tail_padding_alignment_in_elements: 1,
  dynamic_shape_metadata_prefix_bytes: 0,
  padded_dimensions: [],
  padding_element: '',
};

/**
 * How arrays come and go as physical bytes, for the leaves of a manifest; throws ArtifactError if it is wrong about a
 * layout.
 * @param {Manifest} manifest
 * @returns {import('../executor.js').Converter}
 */
export function physical(manifest) {
  /** @type {Map<import('../manifest.js').Leaf, Leaf>} */
  const leaves = new Map();
  for (const leaf of [...manifest.parameters, ...manifest.results]) {
    if (leaf.raw.sizes)
      throw new ArgumentError(
        `'${leaf.name}': arrays with dynamic dimensions have no physical form; load the module without 'physical'`,
      );
    leaves.set(leaf, withLayout(leaf));
  }
  const laid = (/** @type {import('../manifest.js').Leaf} */ leaf) => /** @type {Leaf} */ (leaves.get(leaf));
  return {
    accept: (leaf, value, what) => acceptBytes(laid(leaf), value, what),
    give: (leaf, array) => pack(laid(leaf), array),
    physical: true,
  };
}

/**
 * The leaf with the layout that the manifest states, which leaves out what is default.
 * @param {import('../manifest.js').Leaf} bare
 * @returns {Leaf}
 */
function withLayout(bare) {
  if (!Object.hasOwn(bare.raw, 'physical_bytes')) return { ...bare, layout: PLAIN };
  const item = new Fields(bare.raw, bare.name, ARRAY);
  const given = (/** @type {string} */ key) => Object.hasOwn(bare.raw, key);
  const isTile = (/** @type {any} */ tile) =>
    Array.isArray(tile) &&
    tile.length > 0 &&
    tile.length <= MAX_RANK &&
    tile.every((size) => size === '*' || (isSize(size) && size > 0));
  const number = (/** @type {NumberKey} */ key) => (given(key) ? item.int(key) : PLAIN[key]);
  /** @type {Layout} */
  const layout = {
    tiles: given('tiles') ? item.list('tiles', isTile) : [],
    element_size_in_bits: number('element_size_in_bits'),
    tail_padding_alignment_in_elements: number('tail_padding_alignment_in_elements'),
    dynamic_shape_metadata_prefix_bytes: number('dynamic_shape_metadata_prefix_bytes'),
    padded_dimensions: given('padded_dimensions') ? item.list('padded_dimensions', isSize) : [],
    padding_element: given('padding_element') ? item.text('padding_element') : '',
  };
  const leaf = { ...bare, layout };
  const fault = layoutFault(leaf);
  if (fault) item.fail('minor_to_major', fault);
  const size = item.int('physical_bytes');
  if (size !== physicalBytes(leaf))
    item.fail(
      'physical_bytes',
      `${describe(leaf)} takes ${counted(physicalBytes(leaf), 'byte')} in its layout, not ${show(size)}`,
    );
  return leaf;
}

const product = (/** @type {number[]} */ sizes) => sizes.reduce((a, b) => a * b, 1);

/** @param {Leaf} leaf */
function bounds(leaf) {
  const padded = leaf.layout.padded_dimensions;
  return [...leaf.minor_to_major].reverse().map((d) => (padded.length ? padded : leaf.dimensions)[d]);
}

/**
 * Each tile with what it is applied to: `before` the dimensions, of which it leaves `outer` alone and merges the others
 * into `dims`.
 * @param {Leaf} leaf
 */
function tilings(leaf) {
  const found = [];
  let before = bounds(leaf);
  for (const tile of leaf.layout.tiles) {
    while (before.length < tile.length) before = [1, ...before];
    const reach = before.length - tile.length;
    const outer = before.slice(0, reach);
    /** @type {number[]} */
    const dims = [];
    /** @type {number[]} */
    const sizes = [];
    let merged = 1;
    tile.forEach((size, i) => {
      merged *= before[reach + i];
      if (size === '*') return;
      dims.push(merged);
      sizes.push(size);
      merged = 1;
    });
    const counts = dims.map((size, i) => Math.ceil(size / sizes[i]));
    found.push({ outer, dims, sizes, counts });
    before = [...outer, ...counts, ...sizes];
  }
  return { found, after: before };
}

/** The bits of one element in memory. @param {Leaf} leaf */
const elementBits = (leaf) => leaf.layout.element_size_in_bits || 8 * elementBytes(leaf);

/** @param {Leaf} leaf */
const elementBytes = (leaf) => TYPES[leaf.element_type].array.BYTES_PER_ELEMENT * TYPES[leaf.element_type].components;

/** The elements that a leaf takes in its layout, padding counted. @param {Leaf} leaf */
function physicalElements(leaf) {
  const align = leaf.layout.tail_padding_alignment_in_elements;
  return Math.ceil(product(tilings(leaf).after) / align) * align;
}

/** The bytes that a leaf takes in its layout. @param {Leaf} leaf */
const physicalBytes = (leaf) =>
  leaf.layout.dynamic_shape_metadata_prefix_bytes + Math.ceil((physicalElements(leaf) * elementBits(leaf)) / 8);

/**
 * Why a leaf cannot lie as its layout says; empty if it can.
 * @param {Leaf} leaf
 */
function layoutFault(leaf) {
  const {
    tiles,
    element_size_in_bits: bits,
    padded_dimensions: padded,
    dynamic_shape_metadata_prefix_bytes: prefix,
    padding_element: fill,
  } = leaf.layout;
  if (tiles.some((tile) => tile.at(-1) === '*')) return 'the last dimension of a tile has none to be combined with';
  if (bits && (bits < narrowBits(leaf) || (bits > 8 && bits % 8)))
    return `${counted(bits, 'bit')} ${bits === 1 ? 'does' : 'do'} not hold an element of ${leaf.element_type}`;
  if (
    padded.length &&
    (padded.length !== leaf.dimensions.length || padded.some((wide, d) => wide < leaf.dimensions[d]))
  )
    return `dimensions padded to ${padded}`;
  if (prefix && prefix < 4 * leaf.dimensions.length)
    return (
      `${counted(prefix, 'byte')} ${prefix === 1 ? 'does' : 'do'} not hold ` +
      `${counted(leaf.dimensions.length, 'size')}`
    );
  if (!/^[0-9a-f]*$/.test(fill) || ![0, 2 * elementBytes(leaf)].includes(fill.length)) return `padding with '${fill}'`;
  return '';
}

/** The bits of a value: below 8 for the types that are narrower than their byte. @param {Leaf} leaf */
function narrowBits(leaf) {
  if (leaf.element_type === 'pred') return 1;
  const [, digits] = /** @type {RegExpMatchArray} */ (leaf.element_type.match(/(\d+)/));
  return Number(digits);
}

/**
 * All sums of one number of each axis, the last axis varying fastest. Infinity stands for padding.
 * @param {number[][]} axes
 */
function sums(axes) {
  let found = Float64Array.of(0);
  for (const axis of axes) {
    const next = new Float64Array(found.length * axis.length);
    let k = 0;
    for (const a of found) for (const b of axis) next[k++] = a + b;
    found = next;
  }
  return found;
}

/** @param {number} count @param {(i: number) => number} make */
const range = (count, make) => Array.from({ length: count }, (_, i) => make(i));

/**
 * For every position in memory the row-major number of its element, Infinity for padding.
 * @param {Leaf} leaf
 */
function order(leaf) {
  const { dimensions } = leaf;
  const strides = dimensions.map((_, d) => product(dimensions.slice(d + 1)));
  const sizes = bounds(leaf);
  const major = [...leaf.minor_to_major].reverse();
  let elements = sums(major.map((d, i) => range(sizes[i], (k) => (k < dimensions[d] ? k * strides[d] : Infinity))));
  for (const { dims, sizes: tile, counts } of tilings(leaf).found) {
    const padded = counts.map((count, i) => count * tile[i]);
    const steps = padded.map((_, i) => product(padded.slice(i + 1)));
    const widths = dims.map((_, i) => product(dims.slice(i + 1)));
    const block = sums(dims.map((size, i) => range(padded[i], (k) => (k < size ? k * widths[i] : Infinity))));
    const places = sums([
      ...counts.map((count, i) => range(count, (k) => k * tile[i] * steps[i])),
      ...tile.map((size, i) => range(size, (k) => k * steps[i])),
    ]);
    const size = product(dims);
    const blocks = size ? elements.length / size : 0;
    const next = new Float64Array(blocks * places.length);
    for (let b = 0, k = 0; b < blocks; b++)
      for (const place of places) next[k++] = block[place] === Infinity ? Infinity : elements[b * size + block[place]];
    elements = next;
  }
  const all = new Float64Array(physicalElements(leaf)).fill(Infinity);
  all.set(elements);
  return all;
}

/**
 * The physical bytes of a row-major array. Padding is zero, or what `padding_element` says.
 * @param {Leaf} leaf
 * @param {any} array a typed array of the leaf's type
 */
function pack(leaf, array) {
  const width = elementBytes(leaf);
  const bits = elementBits(leaf);
  const from = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const result = new Uint8Array(physicalBytes(leaf));
  const prefix = leaf.layout.dynamic_shape_metadata_prefix_bytes;
  if (prefix) leaf.dimensions.forEach((size, d) => new DataView(result.buffer).setInt32(4 * d, size, true));
  const fill = Uint8Array.from({ length: width }, (_, i) =>
    parseInt(leaf.layout.padding_element.slice(2 * i, 2 * i + 2) || '0', 16),
  );
  const mask = bits < 8 ? (1 << bits) - 1 : 255;
  order(leaf).forEach((element, place) => {
    const source = element === Infinity ? fill : from.subarray(element * width, (element + 1) * width);
    if (bits >= 8) {
      result.set(source, prefix + (place * bits) / 8);
      return;
    }
    const bit = place * bits;
    const code = (source[0] & mask) << (bit & 7);
    result[prefix + (bit >> 3)] |= code;
    if (code > 255) result[prefix + (bit >> 3) + 1] |= code >> 8;
  });
  return result;
}

/**
 * The row-major array that physical bytes hold.
 * @param {Leaf} leaf
 * @param {Uint8Array} bytes
 * @returns {any}
 */
function unpack(leaf, bytes) {
  const type = TYPES[leaf.element_type];
  const width = elementBytes(leaf);
  const bits = elementBits(leaf);
  const prefix = leaf.layout.dynamic_shape_metadata_prefix_bytes;
  const result = new Uint8Array(leaf.bytes);
  const mask = (1 << Math.min(bits, 8)) - 1;
  // A signed element narrower than a byte is extended by its sign.
  const sign = type.array === Int8Array && narrowBits(leaf) < 8 ? 1 << (narrowBits(leaf) - 1) : 0;
  order(leaf).forEach((element, place) => {
    if (element === Infinity) return;
    if (bits >= 8) {
      const start = prefix + (place * bits) / 8;
      result.set(bytes.subarray(start, start + width), element * width);
      return;
    }
    const bit = place * bits;
    const pair = bytes[prefix + (bit >> 3)] | ((bytes[prefix + (bit >> 3) + 1] ?? 0) << 8);
    result[element] = (((pair >> (bit & 7)) & mask) ^ sign) - sign;
  });
  return new type.array(result.buffer);
}

/**
 * The bytes of an argument that is given in the leaf's layout.
 * @param {Leaf} leaf
 * @param {any} value
 * @param {string} what how a message names the value
 */
function acceptBytes(leaf, value, what) {
  const wanted = `${what} must be the ${counted(physicalBytes(leaf), 'byte')} of ${describe(leaf)} in its layout`;
  const tag = ArrayBuffer.isView(value) ? /** @type {any} */ (value)[Symbol.toStringTag] : typeof value;
  if (tag !== 'Uint8Array') throw new ArgumentError(`${wanted}, a Uint8Array; got ${tag}`);
  if (value.length !== physicalBytes(leaf)) throw new ArgumentError(`${wanted}; got ${value.length}`);
  return unpack(leaf, value);
}
