// Callbacks: Python functions that a JAX program calls. None of them is here: a function given by the caller serves
// one, the format that `jax.debug.print` has left is printed, and any other ends the run. Mirrors
// xla_wasm/host/calls.py.

import { TYPES } from '../arrays.js';
import { ArgumentError, RunError } from '../errors.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {import('./requests.js').Request} Request */

/** How messages name one. @param {Request} request */
export const callbackName = ({ name, place }) => `callback '${name}'${place ? ` (${place})` : ''}`;

/**
 * Returns the function that serves a callback: the caller's own, one that prints its line, or one that throws.
 * @param {Request} request
 * @param {Record<string, import('./requests.js').HostFunction>} functions
 * @returns {import('./requests.js').HostFunction}
 */
export function callback(request, functions) {
  const { target, format = '', operands, results } = request;
  if (target && Object.hasOwn(functions, target)) return functions[target];
  if (format && target && !results.length)
    return (...arrays) => void console.log(visible(line(format, operands, arrays)));
  const why = target
    ? `a Python function, which is not here: pass one, load(source, {customCalls: {'${target}': ...}})`
    : "where the program was compiled to end (callbacks='trap'): compile it with callbacks='host'";
  return (...arrays) => {
    if (format && !target) throw new ArgumentError(line(format, operands, arrays));
    throw new RunError(`the run has reached ${callbackName(request)}, ${why}`);
  };
}

/** Returns a text that moves no cursor of a terminal: the line may come with a stranger's file. @param {string} text */
const visible = (text) => text.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, '\ufffd');

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
 * An array as NumPy writes it: rows in brackets; or a number alone, as Python does.
 * @param {Leaf} leaf
 * @param {any} array
 * @param {string} [spec] of a number alone
 */
function shown(leaf, array, spec) {
  const { element_type: type, dimensions } = leaf;
  const { components } = TYPES[type];
  const numbers = Array.from(array, (x) => decoded(type, x));
  if (!dimensions.length && components === 1)
    return spec && typeof numbers[0] !== 'boolean' ? formatted(numbers[0], spec) : alone(numbers[0]);
  const parts = Array.from({ length: components }, (_, part) =>
    words(
      type,
      numbers.filter((_, i) => i % components === part),
    ),
  );
  const texts = parts[0].map((re, i) =>
    components === 1 ? re : `${re}${/^-/.test(parts[1][i]) ? '' : '+'}${parts[1][i].trim()}j`,
  );
  if (!dimensions.length) return `(${texts[0].replace(/\.(?=[-+j])/g, '')})`;
  return texts.length ? rows(texts, dimensions, ' ') : '[]';
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

const scratch = new DataView(new ArrayBuffer(4));

/** @param {number} bits */
function bfloat(bits) {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** The bfloat16 nearest to a number. @param {number} x */
function toBfloat(x) {
  scratch.setFloat32(0, x);
  const bits = scratch.getUint32(0);
  return bfloat((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
}

/**
 * The digits that tell all numbers of a type apart, and the function that gives the nearest of them.
 * @type {Record<string, [number, (x: number) => number]>}
 */
const ROUND = {
  f16: [5, /** @type {any} */ (Math).f16round ?? Math.fround],
  f32: [9, Math.fround],
  c64: [9, Math.fround],
  bf16: [4, toBfloat],
};

/**
 * The number, integer (a bigint) or boolean that an element is; bits that stand for no number here stay bits.
 * @param {string} type
 * @param {any} x
 */
function decoded(type, x) {
  if (type === 'pred') return x !== 0;
  if (type === 'bf16') return bfloat(x);
  if (TYPES[type].kind === 'int') return BigInt(x);
  return TYPES[type].kind === 'bits' ? `0x${x.toString(16)}` : x;
}

/** A number as Python writes it. @param {any} x */
function alone(x) {
  if (typeof x === 'boolean') return x ? 'True' : 'False';
  if (typeof x !== 'number') return String(x);
  const special = noNumber(x);
  if (special) return special;
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return wideExponent(x.toExponential());
  const text = Object.is(x, -0) ? '-0' : String(x);
  return text.includes('.') || Number.isInteger(x) === false ? text : `${text}.0`;
}

/** Returns the text of NaN and the infinities; "" for other numbers. @param {number} x */
const noNumber = (x) => (Number.isNaN(x) ? 'nan' : Number.isFinite(x) ? '' : x > 0 ? 'inf' : '-inf');

/** At least two digits of an exponent. @param {string} text */
const wideExponent = (text) => text.replace(/e([+-])(\d)$/, 'e$10$2');

/**
 * Elements of an array as NumPy writes them: with the fewest digits that tell them from others of their type, at most 8
 * behind the point, all in one form and of one width.
 * @param {string} type
 * @param {any[]} numbers
 */
function words(type, numbers) {
  if (TYPES[type].kind !== 'float' && type !== 'bf16') return aligned(numbers.map(alone));
  const [most, round] = ROUND[type] ?? [17, (/** @type {number} */ same) => same];
  const nearest = numbers.map((x) => {
    for (let digits = 1; digits <= most && most < 17 && x && Number.isFinite(x); digits++) {
      const near = rounded(x, digits);
      if (round(near) === x) return near;
    }
    return x;
  });
  const sizes = nearest.map(Math.abs).filter((x) => x && Number.isFinite(x));
  const [least, greatest] = [Math.min(...sizes), Math.max(...sizes)];
  const scientific = sizes.length > 0 && (greatest >= 1e8 || least < 1e-4 || greatest / least > 1000);
  const fraction = (/** @type {number} */ x) =>
    (scientific ? x.toExponential() : plain(x)).split('e')[0].split('.')[1]?.length ?? 0;
  const digits = Math.min(8, Math.max(0, ...nearest.filter(Number.isFinite).map(fraction)));
  return aligned(
    nearest.map((x) => noNumber(x) || (scientific ? pointed(wideExponent(x.toExponential(digits))) : short(x, digits))),
  );
}

/**
 * A number of so many digits, the even one of two that are as near.
 * @param {number} x
 * @param {number} digits
 */
function rounded(x, digits) {
  const [mantissa, exponent] = x.toExponential(100).split('e');
  const all = mantissa.replace(/[-.]/g, '');
  const isHalf = /^50*$/.test(all.slice(digits)) && Number(all[digits - 1]) % 2 === 0;
  return isHalf
    ? Number(`${x < 0 ? '-' : ''}${all[0]}.${all.slice(1, digits)}e${exponent}`)
    : Number(x.toPrecision(digits));
}

/** A number of moderate size without an exponent. @param {number} x */
const plain = (x) => (Math.abs(x) < 1e-6 && x ? x.toFixed(20).replace(/0+$/, '') : String(x));

/**
 * Without the zeros at its end.
 * @param {number} x
 * @param {number} digits behind the point
 */
const short = (x, digits) => `${Object.is(x, -0) ? '-' : ''}${pointed(x.toFixed(digits)).replace(/0+$/, '')}`;

/** With a point. @param {string} text */
const pointed = (text) => (text.includes('.') ? text : text.replace(/^(-?\d+)/, '$1.'));

/** Words of one width, with their points below each other. @param {string[]} texts */
function aligned(texts) {
  const parts = texts.map((text) => /^([^.]*)(.*)$/.exec(text)?.slice(1) ?? [text, '']);
  const behind = Math.max(0, ...parts.map(([, fraction]) => fraction.length));
  const isNumber = (/** @type {string} */ whole) => /\d/.test(whole) || !behind;
  const before = Math.max(0, ...parts.map(([whole]) => whole.length - (isNumber(whole) ? 0 : behind)));
  return parts.map(([whole, fraction]) =>
    isNumber(whole) ? whole.padStart(before) + fraction.padEnd(behind) : whole.padStart(before + behind),
  );
}

/**
 * A number by a specification of Python's: width, sign, and digits as d, e, f, g or %.
 * @param {any} x
 * @param {string} spec
 */
function formatted(x, spec) {
  const found = /^([<>^])?([+ ])?(0)?(\d{1,3})?(,)?(?:\.(\d{1,2}))?([defg%])?$/.exec(spec);
  if (!found) return alone(x);
  const [, align, sign, zeros, width, commas, precision, kind] = found;
  const digits = precision === undefined ? 6 : Number(precision);
  const number = Number(x);
  const special = Number.isFinite(number) ? '' : Number.isNaN(number) ? 'nan' : 'inf';
  const size = Math.abs(number);
  let text = special;
  if (!special) {
    if (kind === 'd' || typeof x === 'bigint')
      text = String(typeof x === 'bigint' && x < 0n ? -x : typeof x === 'bigint' ? x : size);
    else if (kind === 'e') text = exponent(size, digits);
    else if (kind === 'f') text = fixed(size, digits);
    else if (kind === '%') text = `${fixed(100 * size, digits)}%`;
    else if (kind === 'g' || precision !== undefined) text = general(size, digits || 1);
    else text = typeof x === 'number' ? alone(size) : String(size);
  }
  if (commas) text = text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ','));
  const before = number < 0 || Object.is(number, -0) ? '-' : (sign ?? '');
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
const exponent = (size, digits) => wideExponent((size && rounded(size, digits + 1)).toExponential(digits));

/**
 * So many digits behind the point; of two numbers that are as near the one whose last digit is even.
 * @param {number} size
 * @param {number} digits
 */
function fixed(size, digits) {
  if (size >= 1e21) return BigInt(size) + (digits ? `.${'0'.repeat(digits)}` : '');
  const all = size.toFixed(100);
  const end = all.length - 100 + digits;
  const below = all.slice(0, digits ? end : end - 1);
  return /^50*$/.test(all.slice(end)) && /[02468]$/.test(below) ? below : size.toFixed(digits);
}

/**
 * So many significant digits, without zeros at the end.
 * @param {number} size
 * @param {number} digits
 */
function general(size, digits) {
  const power = size ? Number(exponent(size, digits - 1).split('e')[1]) : 0;
  const text = power < -4 || power >= digits ? exponent(size, digits - 1) : fixed(size, digits - 1 - power);
  return text.replace(/(\.\d*?)0+(?=e|$)/, '$1').replace(/\.(?=e|$)/, '');
}
