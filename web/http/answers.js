// What a model gave, in the form that the client asks for.

import { FORM, JSON_TYPE, NPY, NPZ, RAW } from './bodies.js';
import { toLists } from './json.js';
import { preferred } from './media.js';
import { toNpy, toRaw } from './npy.js';
import { Refusal } from './refusal.js';
import { writeZip } from './zip.js';

/** @typedef {import('./slots.js').Slot} Slot */
/** @typedef {import('./slots.js').Given} Given */

/**
 * The form of the answer: of those that the client would have, by default that of the body.
 * @param {string | null} accept the header
 * @param {string} body the type of what was sent
 * @param {Slot[]} results
 */
export function answerForm(accept, body, results) {
  const single = results.length === 1 ? [NPY, RAW] : [];
  const possible = [JSON_TYPE, NPZ, 'application/zip', ...single];
  const usual = body !== FORM && possible.includes(body) ? body : body === NPY || body === RAW ? NPZ : JSON_TYPE;
  const form = preferred(accept, [usual, ...possible.filter((type) => type !== usual)]);
  if (form) return form;
  const names = possible.filter((type) => type !== 'application/zip').join(', ');
  const why =
    !single.length && preferred(accept, [NPY, RAW])
      ? ` of ${results.length} results, which do not go into one array`
      : '';
  throw new Refusal(406, `there is no answer of the type '${accept}'${why}: accept ${names}`);
}

/**
 * @param {string} form
 * @param {Slot[]} results
 * @param {Given[]} arrays
 * @returns {string | Uint8Array}
 */
export function writeAnswer(form, results, arrays) {
  if (form === JSON_TYPE)
    return `{${results.map((slot, i) => `${JSON.stringify(slot.name)}:${toLists(slot, arrays[i])}`).join(',')}}\n`;
  if (form === RAW) return toRaw(arrays[0]);
  if (form === NPY) return toNpy(results[0], arrays[0]);
  return writeZip(results.map((slot, i) => [`${slot.name}.npy`, toNpy(slot, arrays[i])]));
}
