// Arrays as nested lists: those of a JSON body, and the text of an answer.

import { numbersOf } from './numbers.js';
import { unreadable } from './refusal.js';
import { fits, isDynamic, product, refuse, refuseNumber } from './slots.js';

/** @typedef {import('./slots.js').Slot} Slot */
/** @typedef {import('./slots.js').Given} Given */

const NAMED = new Map([
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
]);

/** @param {Uint8Array} bytes @param {string} [what] */
export function decode(bytes, what = 'the body') {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return unreadable(`${what} is not UTF-8`);
  }
}

/**
 * The value of a JSON text. Integers that a double cannot hold come as bigint where `exact` asks for it.
 * @param {string} text
 * @param {boolean} exact
 * @param {string} [what]
 */
export function parse(text, exact, what = 'the body') {
  if (!text.trim()) unreadable(`${what} is empty`);
  // A reviver is slow, and few texts have numbers of so many digits.
  const large = exact && /\d{16}/.test(text);
  try {
    return large ? JSON.parse(text, exactly) : JSON.parse(text);
  } catch (error) {
    // The stack of a reviver ends before a text does.
    if (error instanceof RangeError) return unreadable(`${what} has lists in lists too deep to be read`);
    return unreadable(`${what} is not JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {string} _
 * @param {any} value
 * @param {{source?: string}} [context] which engines give since 2023
 */
const exactly = (_, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
    ? BigInt(/** @type {string} */ (context?.source))
    : value;

/** @param {any} value */
const nameOf = (value) =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'a list'
      : typeof value === 'object'
        ? 'an object'
        : `a ${typeof value}`;

/** @param {any} item */
const shown = (item) =>
  typeof item === 'object' ? nameOf(item) : typeof item === 'bigint' ? String(item) : JSON.stringify(item).slice(0, 60);

/**
 * An input from nested lists, or from one list of all elements.
 * @param {Slot} slot
 * @param {any} value
 * @returns {Given}
 */
export function fromLists(slot, value) {
  const parts = slot.components > 1 ? [2] : [];
  const depth = slot.dimensions.length + parts.length;
  const nesting = [];
  for (let inner = value; Array.isArray(inner) && nesting.length <= depth; inner = inner[0]) nesting.push(inner.length);
  let shape = nesting;
  // What an empty list would have in it is not to be seen.
  if (nesting.at(-1) === 0) shape = [...nesting, ...[...slot.dimensions, ...parts].slice(nesting.length)];
  const pairs = !parts.length || shape.at(-1) === 2;
  const flat =
    !isDynamic(slot) && pairs && nesting.length === 1 + parts.length && nesting[0] * slot.components === slot.count;
  if (!(flat || (shape.length === depth && pairs && fits(slot, shape.slice(0, slot.dimensions.length))))) {
    if (!nesting.length && typeof value !== 'number' && typeof value !== 'boolean') refuse(slot, nameOf(value));
    const inner = parts.length && pairs ? shape.slice(0, -1) : shape;
    refuse(
      slot,
      `${slot.type}[${inner}]`,
      parts.length && !pairs ? 'each number is a list of its real and its imaginary part' : '',
    );
  }
  const lists = flat ? nesting : shape;
  const array = new slot.array(product(lists));
  const numbers = numbersOf(slot.type, slot.array);
  /** @type {number[]} */
  const path = [];
  let filled = 0;
  const where = () => path.map((i) => `[${i}]`).join('');
  /** @param {any} item @param {number} level */
  const fill = (item, level) => {
    if (level < lists.length) {
      if (!Array.isArray(item) || item.length !== lists[level]) {
        const given = Array.isArray(item) ? `a list of ${item.length}` : nameOf(item);
        refuse(
          slot,
          'lists of different lengths',
          `${slot.name}${where()} is ${given}, others are lists of ${lists[level]}`,
        );
      }
      for (let i = 0; i < item.length; i++) {
        path[level] = i;
        fill(item[i], level + 1);
      }
      path.length = level;
    } else {
      const stored = store(numbers, item);
      if (stored === undefined) refuseNumber(slot, where(), shown(item));
      array[filled++] = stored;
    }
  };
  fill(value, 0);
  return { array, shape: flat ? slot.dimensions : shape.slice(0, slot.dimensions.length) };
}

/**
 * @param {import('./numbers.js').Numbers} numbers
 * @param {any} item
 */
function store({ kind, store }, item) {
  if (typeof item === 'number' || typeof item === 'bigint') return store(item);
  if (typeof item === 'boolean') return kind === 'pred' ? Number(item) : undefined;
  const named = kind === 'float' || kind === 'complex' ? NAMED.get(item) : undefined;
  return named === undefined ? undefined : store(named);
}

/**
 * An input from numbers as people write them: a JSON list, or numbers with white space or commas between them.
 * @param {Slot} slot
 * @param {string} text
 * @returns {Given}
 */
export function fromText(slot, text) {
  const exact = /^[su]64$/.test(slot.type);
  if (/^\s*\[/.test(text)) return fromLists(slot, parse(text, exact, `input '${slot.name}'`));
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const values = words.map((word) => {
    const lower = word.toLowerCase();
    if (/^[+-]?(nan|inf(inity)?)$/.test(lower))
      return lower.includes('nan') ? 'NaN' : lower[0] === '-' ? '-Infinity' : 'Infinity';
    if (lower === 'true' || lower === 'false') return lower === 'true';
    if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(lower))
      return unreadable(`input '${slot.name}': '${word.slice(0, 60)}' is not a number`, { field: slot.name });
    const number = Number(word);
    return exact && !Number.isSafeInteger(number) && /^[+-]?\d+$/.test(word) ? BigInt(word.replace('+', '')) : number;
  });
  if (slot.components === 1) return fromLists(slot, slot.dimensions.length || values.length !== 1 ? values : values[0]);
  const pairs = Array.from({ length: Math.ceil(values.length / 2) }, (_, i) => values.slice(2 * i, 2 * i + 2));
  return fromLists(slot, pairs);
}

/**
 * An array as the text of nested lists.
 * @param {Slot} slot
 * @param {Given} given
 */
export function toLists({ type, array: kind, components }, { array, shape }) {
  const { text } = numbersOf(type, kind);
  const sizes = components > 1 ? [...shape, components] : shape;
  let next = 0;
  /** @param {number} level @returns {string} */
  const lists = (level) => {
    if (level === sizes.length) return text(array[next++]);
    const items = [];
    for (let i = 0; i < sizes[level]; i++) items.push(lists(level + 1));
    return `[${items.join(',')}]`;
  };
  return lists(0);
}
