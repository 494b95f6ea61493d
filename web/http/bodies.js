// The inputs of a model from the body of a request.

import { fromRaw, fromNpy, isNpy } from './npy.js';
import { decode, fromLists, fromText, parse } from './json.js';
import { readForm } from './form.js';
import { mediaType } from './media.js';
import { Refusal, unfit, unreadable } from './refusal.js';
import { expected } from './slots.js';
import { readZip } from './zip.js';

/** @typedef {import('./slots.js').Slot} Slot */
/** @typedef {import('./slots.js').Given} Given */

export const [JSON_TYPE, NPY, NPZ, RAW, FORM] = [
  'application/json',
  'application/x-npy',
  'application/x-npz',
  'application/octet-stream',
  'multipart/form-data',
];
const TYPES = [JSON_TYPE, NPY, NPZ, RAW, FORM];
/** Of text: a number takes up to 25 characters, and in indented JSON a line of its own. */
const BYTES_OF_A_NUMBER = 64;
const BYTES_AROUND = 1 << 16;

/** The most bytes that inputs in any form can need. @param {Slot[]} inputs */
export const limitOf = (inputs) =>
  inputs.reduce((sum, { count }) => sum + BYTES_AROUND + count * BYTES_OF_A_NUMBER, BYTES_AROUND);

/**
 * Returns the format of a body, as its headers state it. Throws Refusal for others than the known.
 * @param {Headers} headers
 * @param {Slot[]} inputs
 */
export function formOf(headers, inputs) {
  const coding = headers.get('Content-Encoding') ?? 'identity';
  if (coding.toLowerCase() !== 'identity')
    throw new Refusal(415, `the body is encoded as '${coding}': send it as it is`);
  const { type: given, parameters } = mediaType(headers.get('Content-Type') ?? '');
  const type = given === '' ? JSON_TYPE : given === 'application/zip' ? NPZ : given;
  if (!TYPES.includes(type)) {
    // What `curl -d` says of any body.
    const cure =
      type === 'application/x-www-form-urlencoded' ? `; with curl -d add -H 'Content-Type: ${JSON_TYPE}'` : '';
    throw new Refusal(415, `the model does not read '${given}': send ${TYPES.join(', ')}${cure}`);
  }
  if ((type === NPY || type === RAW) && inputs.length !== 1) {
    throw new Refusal(
      415,
      `${type} is one array, and the model takes ${inputs.length} (${inputs.map(({ name }) => name).join(', ')}): ` +
        `send ${NPZ} or ${JSON_TYPE}`,
    );
  }
  const limit = type === RAW ? inputs[0].count * inputs[0].array.BYTES_PER_ELEMENT : limitOf(inputs);
  return { type, parameters, limit };
}

/**
 * The whole body, if it is not larger than `limit`.
 * @param {Request} request
 * @param {number} limit
 */
export async function readBody({ headers, body }, limit) {
  const tooLarge = (/** @type {string} */ size) =>
    new Refusal(413, `the body has ${size} bytes, and the inputs can need ${limit} at most`);
  const stated = Number(headers.get('Content-Length') ?? 0);
  if (stated > limit) throw tooLarge(String(stated));
  const parts = [];
  let size = 0;
  const reader = body?.getReader();
  try {
    for (let next; reader && !(next = await reader.read()).done; ) {
      size += next.value.length;
      if (size > limit) break;
      parts.push(next.value);
    }
  } catch (error) {
    unreadable(`the body ends early: ${/** @type {Error} */ (error).message}`);
  }
  if (size > limit) {
    await reader?.cancel().catch(() => {});
    throw tooLarge(`more than ${limit}`);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * The inputs, in their order.
 * @param {Slot[]} inputs
 * @param {ReturnType<typeof formOf>} form
 * @param {Uint8Array<ArrayBuffer>} body
 * @returns {Promise<Given[]>}
 */
export async function readInputs(inputs, { type, parameters, limit }, body) {
  if (type === NPY) return [fromNpy(inputs[0], body, 'the body')];
  if (type === RAW) return [fromRaw(inputs[0], body)];
  if (type === NPZ) return fromFiles(inputs, await readZip(body, limit));
  if (type === FORM) return fromParts(inputs, readForm(body, parameters.get('boundary')));
  if (!inputs.length && !body.length) return [];
  const value = parse(
    decode(body),
    inputs.some((input) => /^[su]64$/.test(input.type)),
  );
  const named = value !== null && typeof value === 'object' && !Array.isArray(value);
  if (inputs.length === 1 && !named) return [fromLists(inputs[0], value)];
  if (!named) {
    unfit(`the model takes ${inputs.length} inputs, so the body must be an object with ${list(inputs)}`, {});
  }
  complete(inputs, Object.keys(value));
  return inputs.map((input) => fromLists(input, value[input.name]));
}

/** @param {Slot[]} inputs */
const list = (inputs) => inputs.map((input) => `'${input.name}': ${expected(input)}`).join(', ') || 'nothing in it';

/**
 * Refuses names that are missing or of no input.
 * @param {Slot[]} inputs
 * @param {string[]} names
 */
function complete(inputs, names) {
  const wrong = names.find((name) => !inputs.some((input) => input.name === name));
  if (wrong !== undefined)
    unfit(`the model has no input '${wrong.slice(0, 100)}'; it takes ${list(inputs)}`, { field: wrong.slice(0, 100) });
  const missing = inputs.find((input) => !names.includes(input.name));
  if (missing) unfit(`input '${missing.name}' is missing`, { field: missing.name, expected: expected(missing) });
}

/**
 * @param {Slot[]} inputs
 * @param {Map<string, Uint8Array>} files
 */
function fromFiles(inputs, files) {
  const named = new Map([...files].map(([name, file]) => [name.replace(/\.npy$/, ''), file]));
  // What numpy.savez calls arrays that were given without names.
  const counted = !inputs.some((input) => named.has(input.name)) && inputs.every((_, i) => named.has(`arr_${i}`));
  const found = counted
    ? new Map([...named].map(([name, file]) => [inputs[Number(/^arr_(\d+)$/.exec(name)?.[1])]?.name ?? name, file]))
    : named;
  complete(inputs, [...found.keys()]);
  return inputs.map((input) =>
    fromNpy(input, /** @type {Uint8Array} */ (found.get(input.name)), `'${input.name}' in the archive`),
  );
}

/**
 * @param {Slot[]} inputs
 * @param {import('./form.js').Part[]} parts
 */
function fromParts(inputs, parts) {
  /** @type {Map<string, import('./form.js').Part>} */
  const given = new Map();
  for (const part of parts) {
    // What was left empty in a form that offers both a field and a file.
    if (!part.bytes.length) continue;
    if (given.has(part.name)) unfit(`input '${part.name}' is in the form twice`, { field: part.name });
    given.set(part.name, part);
  }
  complete(inputs, [...given.keys()]);
  return inputs.map((input) => fromPart(input, /** @type {import('./form.js').Part} */ (given.get(input.name))));
}

const ENDINGS = new Map([
  ['npy', NPY],
  ['json', JSON_TYPE],
  ['txt', 'text/plain'],
  ['csv', 'text/plain'],
]);

/**
 * @param {Slot} input
 * @param {import('./form.js').Part} part
 */
function fromPart(input, { filename, type: stated, bytes }) {
  const what = `input '${input.name}'`;
  const ending = ENDINGS.get(/\.(\w+)$/.exec(filename)?.[1].toLowerCase() ?? '');
  let type = mediaType(stated ?? '').type || 'text/plain';
  // Browsers know few endings, and call what they do not know bytes.
  if (ending && (type === RAW || stated === undefined)) type = ending;
  if (type === RAW && isNpy(bytes)) type = NPY;
  if (type === NPY) return fromNpy(input, bytes, what);
  if (type === RAW) return fromRaw(input, bytes);
  if (type === JSON_TYPE) return fromLists(input, parse(decode(bytes, what), /^[su]64$/.test(input.type), what));
  if (type === 'text/plain' || type === 'text/csv') return fromText(input, decode(bytes, what));
  throw new Refusal(415, `${what} is '${type}' in the form: send ${NPY}, ${JSON_TYPE}, ${RAW} or text/plain`, {
    field: input.name,
  });
}
