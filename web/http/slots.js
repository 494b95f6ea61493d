// What a model takes and gives, as requests and answers know it.

import { TYPES } from '../arrays.js';
import { leastSizes, shownSize } from '../arrays/dynamic.js';
import { unfit } from './refusal.js';

/**
 * An input or a result.
 * @typedef {object} Slot
 * @property {string} name
 * @property {string} type HLO's name of the element type
 * @property {number[]} dimensions the sizes, of dynamic dimensions the bounds
 * @property {number[]} least the least sizes
 * @property {boolean[]} dynamic
 * @property {number} components 2 for complex numbers, else 1
 * @property {number} count numbers in the whole array, of a complex number both parts
 * @property {any} array the loader's class of such arrays
 */

/** A typed array in row-major order, and the sizes that it has. @typedef {{array: any, shape: number[]}} Given */

/** @param {number[]} sizes */
export const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

/**
 * @param {import('../manifest.js').Leaf} leaf
 * @returns {Slot}
 */
function slot(leaf) {
  const { name, element_type: type, dimensions, raw } = leaf;
  const { array, components } = TYPES[type];
  const dynamic = dimensions.map((_, d) => raw.sizes != null && raw.sizes[d] !== null);
  const count = product(dimensions) * components;
  return { name, type, dimensions, least: leastSizes(leaf), dynamic, components, count, array };
}

/**
 * The inputs and results of a model, without weights and states.
 * @param {import('../manifest.js').Manifest} manifest
 */
export const slots = ({ parameters, results }) => ({
  inputs: parameters.filter((leaf) => leaf.kind === 'input').map(slot),
  results: results.filter((leaf) => leaf.kind === 'output').map(slot),
});

/** The sizes as the signature states them. @param {Slot} slot @returns {(number | string)[]} */
export const sizes = ({ dimensions, least, dynamic }) =>
  dimensions.map((size, d) => shownSize(size, least[d], dynamic[d]));

/** The type and shape as HLO writes them. @param {Slot} slot */
export const expected = (slot) => `${slot.type}[${sizes(slot)}]`;

/** @param {Slot} slot */
export const isDynamic = ({ dynamic }) => dynamic.includes(true);

/**
 * Returns true if an array of this shape may be given.
 * @param {Slot} slot
 * @param {number[]} shape
 */
export const fits = ({ dimensions, least }, shape) =>
  shape.length === dimensions.length && shape.every((size, d) => least[d] <= size && size <= dimensions[d]);

/**
 * Refuses what was given for an input.
 * @param {Slot} slot
 * @param {string} given its type and shape
 * @param {string} [why]
 * @returns {never}
 */
export function refuse(slot, given, why = '') {
  unfit(`input '${slot.name}' must be ${expected(slot)}; got ${given}${why && `: ${why}`}`, {
    field: slot.name,
    expected: expected(slot),
    given,
  });
}

/**
 * Refuses a number that the type does not have.
 * @param {Slot} slot
 * @param {string} where which of the array it is
 * @param {string} value
 * @returns {never}
 */
export function refuseNumber(slot, where, value) {
  unfit(`${slot.name}${where} is ${value}, which ${slot.type} does not have`, {
    field: slot.name,
    expected: expected(slot),
  });
}

/**
 * The place of an element as a path: `[0][3]`.
 * @param {number[]} shape
 * @param {number} index in row-major order
 */
export function placeOf(shape, index) {
  let path = '';
  for (const size of [...shape].reverse()) {
    path = `[${index % size}]${path}`;
    index = Math.floor(index / size);
  }
  return path;
}
