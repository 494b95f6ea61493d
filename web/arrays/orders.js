// Layouts that are not row-major: where the elements of arrays stand. The loader takes this in for modules that have
// such layouts.

import { TYPES } from '../arrays.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */

/**
 * Has leaves know the orders of their elements. A message does not carry them, since they may be large.
 * @param {Leaf[]} leaves
 */
export function order(leaves) {
  for (const leaf of leaves) Object.defineProperty(leaf, 'order', { get: () => physicalOrder(leaf) });
}

/**
 * Where each element of a row-major array stands in memory; nothing if the layout is row-major too.
 * @param {Leaf} leaf
 */
function physicalOrder(leaf) {
  // A dimension of size 1 may stand anywhere.
  const real = leaf.minor_to_major.filter((d) => leaf.dimensions[d] !== 1);
  // Of an array without elements another one may be as long as it says.
  if (!leaf.bytes || real.every((d, i) => i === 0 || d < real[i - 1])) return undefined;
  const { components } = TYPES[leaf.element_type];
  const strides = leaf.dimensions.map(() => 0);
  let step = components;
  for (const d of leaf.minor_to_major) {
    strides[d] = step;
    step *= leaf.dimensions[d];
  }
  let places = Uint32Array.of(0);
  const widen = (/** @type {number} */ size, /** @type {number} */ stride) => {
    const next = new Uint32Array(places.length * size);
    for (let i = 0, k = 0; i < places.length; i++) for (let j = 0; j < size; j++) next[k++] = places[i] + j * stride;
    places = next;
  };
  leaf.dimensions.forEach((size, d) => widen(size, strides[d]));
  if (components > 1) widen(components, 1);
  return places;
}
