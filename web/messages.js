// Arrays in messages between a page and its worker, which know nothing of what an array carries beside its elements.

import { given } from './arrays.js';

const SHAPED = 'xla_wasm array';

/**
 * A value as a message carries it. Arrays are copied (a view alone, not all of the buffer that it shows) unless they
 * are marked.
 * @param {any} value an array, or a list or object of values
 * @param {ArrayBuffer[]} moved takes the buffers that the message hands over
 * @param {boolean} [all] hand over all of them
 * @returns {any}
 */
export function pack(value, moved, all) {
  if (ArrayBuffer.isView(value)) {
    const { shape, slice } = /** @type {any} */ (value);
    if (!slice) return value;
    const array = all || given.has(value) ? value : slice.call(value);
    if (!moved.includes(array.buffer)) moved.push(array.buffer);
    return shape ? { [SHAPED]: array, shape } : array;
  }
  // Nested arrays of numbers go as they are.
  if (Array.isArray(value)) return value.some(ArrayBuffer.isView) ? value.map((item) => pack(item, moved, all)) : value;
  if (value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, pack(item, moved, all)]));
  }
  return value;
}

/**
 * @param {any} value
 * @returns {any}
 */
export function unpack(value) {
  if (ArrayBuffer.isView(value) || value === null || typeof value !== 'object') return value;
  if (Array.isArray(value))
    return value.some((item) => item !== null && typeof item === 'object') ? value.map(unpack) : value;
  if (SHAPED in value) return Object.assign(value[SHAPED], { shape: value.shape });
  return Object.getPrototypeOf(value) === Object.prototype
    ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, unpack(item)]))
    : value;
}
