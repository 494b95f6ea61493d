// Typed arrays on one side, leaves of the manifest on the other. Mirrors xla_wasm/host/arrays.py.

import { ArgumentError } from './errors.js';
import { ELEMENT_TYPES } from './manifest_fields.js';

/** @typedef {import('./manifest.js').Leaf} Leaf */
/**
 * @typedef {Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float32Array | Float64Array
 *   | BigInt64Array | BigUint64Array} TypedArray
 */
/** @typedef {TypedArray | number | bigint | boolean | any[]} Value what a parameter accepts; arrays may be nested */

/**
 * @typedef {object} ElementType
 * @property {any} array the typed array class of its elements
 * @property {number} components 2 for complex numbers, which are (real, imaginary) pairs, else 1
 * @property {'pred' | 'int' | 'float' | 'bits'} kind bits: a type JavaScript has no numbers for, passed as its raw bits
 * @property {number} bits the width of an integer
 */

// f16 is a Float16Array where the engine has one (a Uint16Array of bits is taken too, results are Float16Arrays), else
// a Uint16Array of bits. Other floats narrower than 32 bits are raw bits, each in an element of a Uint16Array or
// Uint8Array of its own. Integers narrower than a byte are the numbers in an Int8Array or Uint8Array.
const { Float16Array } = /** @type {any} */ (globalThis);

/** @type {Record<string, ElementType>} */
export const TYPES = Object.create(null);
for (const [array, names] of Object.entries(ELEMENT_TYPES))
  for (const name of names.split(' ')) {
    const own = (name === 'f16' && Float16Array) || /** @type {any} */ (globalThis)[array];
    const kind = name === 'pred' ? name : /^[su]/.test(name) ? 'int' : own.name[0] === 'F' ? 'float' : 'bits';
    TYPES[name] = { array: own, components: name[0] === 'c' ? 2 : 1, kind, bits: Number(name.slice(1)) };
  }

/** A leaf as the reader of a message knows it. @param {Leaf} leaf */
export const describe = (leaf) => `${leaf.element_type}[${leaf.dimensions}]`;

/** A number of things, as in "1 argument" and "2 arguments". @param {number} count @param {string} what */
export const counted = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;

/** One leaf's place in linear memory. The memory never grows, so the view stays valid. */
export class Place {
  /**
   * @param {Leaf} leaf
   * @param {ArrayBuffer} buffer
   * @param {number} [offset]
   */
  constructor(leaf, buffer, offset = leaf.offset) {
    const type = TYPES[leaf.element_type];
    this.leaf = leaf;
    /** @type {any} */
    this.view = new type.array(buffer, leaf.bytes ? offset : 0, leaf.bytes / type.array.BYTES_PER_ELEMENT);
    this.order = leaf.order;
  }

  /** @param {TypedArray} array elements in row-major order */
  write(array) {
    const { view, order } = this;
    if (order) for (let i = 0; i < order.length; i++) view[order[i]] = array[i];
    else if (!this.holds(array)) view.set(array);
  }

  /**
   * The elements in row-major order, in an array of the caller or a new one.
   * @param {any} [array]
   * @returns {any}
   */
  read(array) {
    const { view, order } = this;
    // Unlike slice, this does not fill the new array with zeros first.
    if (!order && !array) return new view.constructor(view);
    array ??= new view.constructor(view.length);
    if (order) for (let i = 0; i < order.length; i++) array[i] = view[order[i]];
    else if (!this.holds(array)) array.set(view);
    return array;
  }

  /** Returns true if an array of its type and length is this very memory. @param {any} array */
  holds({ buffer, byteOffset }) {
    const { view, order } = this;
    return !order && view.buffer === buffer && view.byteOffset === byteOffset;
  }
}

/**
 * The value as a typed array of exactly the leaf's type and length.
 * @param {Leaf} leaf
 * @param {any} value
 * @param {string} what how a message names the value
 * @returns {any}
 */
export function accept(leaf, value, what) {
  const type = TYPES[leaf.element_type];
  const count = leaf.bytes / type.array.BYTES_PER_ELEMENT;
  const wanted = `${what} must be ${describe(leaf)}, a ${type.array.name} of ${counted(count, 'element')}`;
  if (ArrayBuffer.isView(value)) {
    // By tag and not by instanceof: the array may come from a frame or another realm.
    const tag = /** @type {any} */ (value)[Symbol.toStringTag];
    const length = /** @type {any} */ (value).length;
    if (tag === type.array.name && length === count) return value;
    if (type.array === Float16Array && tag === 'Uint16Array' && length === count)
      return new Float16Array(value.buffer, value.byteOffset, count);
    throw new ArgumentError(`${wanted}; got ${tag ? `a ${tag} of ${length}` : 'a DataView'}`);
  }
  if (!Array.isArray(value) && !['number', 'bigint', 'boolean'].includes(typeof value)) {
    throw new ArgumentError(
      `${wanted}; got ${value === null ? 'null' : typeof value === 'object' ? value.constructor?.name : typeof value}`,
    );
  }
  if (type.components > 1 && leaf.dimensions.length && !Array.isArray(value))
    throw new ArgumentError(`${wanted}; got one number`);
  const shape = type.components > 1 ? [...leaf.dimensions, type.components] : leaf.dimensions;
  const array = new type.array(count);
  let filled = 0;
  const fill = (/** @type {any} */ item, /** @type {number} */ depth) => {
    if (depth < shape.length) {
      if (!Array.isArray(item) || item.length !== shape[depth])
        throw new ArgumentError(`${wanted}; got nested arrays of another shape`);
      for (const inner of item) fill(inner, depth + 1);
    } else {
      if (!store(array, filled, item, type))
        throw new ArgumentError(
          `${wanted}; ${typeof item === 'bigint' ? `${item}n` : JSON.stringify(item)} does not fit`,
        );
      filled++;
    }
  };
  // A flat array serves for any shape.
  if (Array.isArray(value) && value.length === count && shape.length > 1 && !value.some(Array.isArray))
    for (const item of value) fill(item, shape.length);
  else fill(value, 0);
  return array;
}

/**
 * Stores one number, if that changes nothing but a float's rounding.
 * @param {any} array
 * @param {number} index
 * @param {any} item
 * @param {ElementType} type
 */
function store(array, index, item, { kind, bits = 64 }) {
  if (kind === 'pred') {
    if (![true, false, 0, 1].includes(item)) return false;
    array[index] = item;
    return true;
  }
  if (kind === 'float' && typeof item === 'number') {
    array[index] = item;
    return Number.isFinite(array[index]) || !Number.isFinite(item);
  }
  if (kind === 'int' && (typeof item === 'bigint' || Number.isSafeInteger(item))) {
    const big = BigInt(item);
    array[index] = typeof array[index] === 'bigint' ? big : Number(item);
    return (
      BigInt(array[index]) === big &&
      (bits > 4 || big === BigInt[array instanceof Int8Array ? 'asIntN' : 'asUintN'](bits, big))
    );
  }
  return false;
}

/** @type {WeakSet<object>} arrays that a caller gives away */
export const given = new WeakSet();

/**
 * Marks an array to be handed to a worker as it is, without a copy; afterwards it is empty here.
 * @template {ArrayBufferView} T
 * @param {T} array
 * @returns {T}
 */
export function transfer(array) {
  given.add(array);
  return array;
}
