// Callbacks: Python functions that a JAX program calls. None of them is here: a function given by the caller serves one, the format that
// `jax.debug.print` has left is printed, and any other ends the run. Mirrors xla_wasm/host/calls.py.

import { TYPES } from '../arrays.js';
import { RunError } from '../errors.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {import('./requests.js').Transfer} Transfer */

/** How messages name one. @param {Transfer} transfer */
export const callbackName = ({ name, place }) => `callback '${name}'${place ? ` (${place})` : ''}`;

/**
 * What serves a callback.
 * @param {Transfer} transfer
 * @param {Record<string, import('./requests.js').HostFunction>} functions
 * @returns {import('./requests.js').HostFunction}
 */
export function callback(transfer, functions) {
  const { target, format = '', operands, results } = transfer;
  if (target && Object.hasOwn(functions, target)) return functions[target];
  if (format && !results.length) return (...arrays) => console.log(line(format, operands, arrays));
  const why = target
    ? `a Python function, which is not here: pass one, load(source, {customCalls: {'${target}': ...}})`
    : "where the program was compiled to end (callbacks='trap')";
  return () => {
    throw new RunError(`the run has reached ${callbackName(transfer)}, ${why}`);
  };
}

/**
 * A line with operands in the place of its fields, such as {0} or {1:.3f}; {{ and }} stand for braces.
 * @param {string} format
 * @param {Leaf[]} leaves
 * @param {any[]} arrays
 */
export function line(format, leaves, arrays) {
  return format.replace(/\{\{|\}\}|\{(\d+)(?:![rsa])?(?::([^{}]*))?\}/g, (all, number, spec) => {
    if (number === undefined) return all[0];
    return leaves[number] ? shown(leaves[number], arrays[number], spec) : all;
  });
}

/**
 * An array as NumPy writes it: a number alone, or rows in brackets.
 * @param {Leaf} leaf
 * @param {any} array
 * @param {string} [spec] of a number alone
 */
function shown(leaf, array, spec) {
  const { components } = TYPES[leaf.element_type];
  const dimensions = leaf.dimensions;
  const numbers = Array.from(array, (x) => decoded(leaf.element_type, x));
  const alone = !dimensions.length;
  if (alone && spec && components === 1 && typeof numbers[0] !== 'boolean') return formatted(numbers[0], spec);
  const words = [];
  for (let i = 0; i < numbers.length; i += components) {
    const [re, im] = numbers.slice(i, i + components).map((x) => word(leaf.element_type, x, alone && components === 1));
    words.push(components === 1 ? re : `${re}${im[0] === '-' ? '' : '+'}${im}j`);
  }
  if (alone) return components === 2 ? `(${words[0].replace(/\.(?=[-+j])/g, '')})` : words[0];
  return rows(aligned(words), dimensions, ' ');
}

/** Words of one width, with their points below each other. @param {string[]} words */
function aligned(words) {
  const parts = words.map((text) => /^([^.]*)(.*)$/.exec(text)?.slice(1) ?? [text, '']);
  const [before, behind] = [0, 1].map((side) => parts.reduce((most, part) => Math.max(most, part[side].length), 0));
  return parts.map(([whole, fraction]) => whole.padStart(before) + fraction.padEnd(behind));
}

/**
 * @param {string[]} words in row-major order
 * @param {number[]} dimensions
 * @param {string} indent
 * @returns {string}
 */
function rows(words, [size, ...rest], indent) {
  if (!rest.length) return `[${words.slice(0, size).join(' ')}]`;
  const each = words.length / size || 0;
  const parts = Array.from({ length: size }, (_, i) => rows(words.slice(i * each, (i + 1) * each), rest, indent + ' '));
  return `[${parts.join('\n'.repeat(rest.length) + indent)}]`;
}

const FLOATS = /** @type {Record<string, [number, (x: number) => number]>} */ ({
  f16: [5, /** @type {any} */ (Math).f16round ?? ((/** @type {number} */ x) => x)],
  f32: [9, Math.fround],
  c64: [9, Math.fround],
  bf16: [4, (x) => bfloat(bfloatBits(x))],
});
const scratch = new DataView(new ArrayBuffer(4));

/** @param {number} bits */
function bfloat(bits) {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** The bfloat16 nearest to a number. @param {number} x */
function bfloatBits(x) {
  scratch.setFloat32(0, x);
  const bits = scratch.getUint32(0);
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/**
 * The number or boolean that an element is; bits that stand for no number here stay bits.
 * @param {string} type
 * @param {any} x
 */
function decoded(type, x) {
  if (type === 'pred') return x !== 0;
  return type === 'bf16' ? bfloat(x) : x;
}

/**
 * The fewest digits that tell a number from the others of its type.
 * @param {string} type
 * @param {any} x
 * @param {boolean} alone as Python writes a number, else as NumPy does in an array
 */
function word(type, x, alone) {
  if (typeof x === 'boolean') return x ? 'True' : 'False';
  if (typeof x === 'bigint' || TYPES[type].kind === 'int') return String(x);
  if (TYPES[type].kind === 'bits' && type !== 'bf16') return `0x${x.toString(16)}`;
  if (Number.isNaN(x)) return 'nan';
  if (!Number.isFinite(x)) return x > 0 ? 'inf' : '-inf';
  const [most, round] = FLOATS[type] ?? [17, (/** @type {number} */ same) => same];
  let nearest = x;
  for (let digits = 1; digits <= most && most < 17; digits++) {
    nearest = Number(x.toPrecision(digits));
    if (round(nearest) === x) break;
  }
  const size = Math.abs(nearest);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return nearest.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  const text = Object.is(nearest, -0) ? '-0' : String(nearest);
  return text.includes('.') ? text : `${text}.${alone ? '0' : ''}`;
}

/**
 * A number by a specification of Python's: width, sign, and digits as d, e, f, g or %.
 * @param {any} x
 * @param {string} spec
 */
function formatted(x, spec) {
  const found = /^([<>^])?([+ ])?(0)?(\d+)?(,)?(?:\.(\d+))?([defg%])?$/.exec(spec);
  if (!found) return String(x);
  const [, align, sign, zeros, width, commas, precision, kind] = found;
  const digits = precision === undefined ? 6 : Number(precision);
  const number = Number(x);
  const special = Number.isFinite(number) ? '' : Number.isNaN(number) ? 'nan' : 'inf';
  const size = Math.abs(number);
  let text = special;
  if (!special) {
    if (kind === 'd' || typeof x === 'bigint') text = String(typeof x === 'bigint' && x < 0n ? -x : typeof x === 'bigint' ? x : size);
    else if (kind === 'e') text = exponent(size, digits);
    else if (kind === 'f') text = size.toFixed(digits);
    else if (kind === '%') text = `${(100 * size).toFixed(digits)}%`;
    else if (kind === 'g' || precision !== undefined) text = general(size, digits || 1);
    else text = String(size);
  }
  if (commas) text = text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ','));
  const before = number < 0 || Object.is(number, -0) ? '-' : sign ?? '';
  const room = Number(width ?? 0);
  if (zeros && !align) return before + text.padStart(room - before.length, '0');
  const whole = before + text;
  if (align === '^') return whole.padStart(Math.floor((room + whole.length) / 2)).padEnd(room);
  return align === '<' ? whole.padEnd(room) : whole.padStart(room);
}

/**
 * @param {number} size
 * @param {number} digits
 */
const exponent = (size, digits) => size.toExponential(digits).replace(/e([+-])(\d)$/, 'e$10$2');

/**
 * So many significant digits, without zeros at the end.
 * @param {number} size
 * @param {number} digits
 */
function general(size, digits) {
  const power = size ? Number(exponent(size, digits - 1).split('e')[1]) : 0;
  const text = power < -4 || power >= digits ? exponent(size, digits - 1) : size.toFixed(digits - 1 - power);
  return text.replace(/(\.\d*?)0+(?=e|$)/, '$1').replace(/\.(?=e|$)/, '');
}
