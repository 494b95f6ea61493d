// Arrays that a caller gives away.

/** @type {WeakSet<object>} */
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
