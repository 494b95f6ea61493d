// Arrays as .npy files, in any order of bytes and of dimensions; and as raw bytes.

import { counted } from '../arrays.js';
import { numbersOf, smallFloat } from './numbers.js';
import { unreadable } from './refusal.js';
import { fits, isDynamic, placeOf, product, refuse, refuseNumber } from './slots.js';

/** @typedef {import('./slots.js').Slot} Slot */
/** @typedef {import('./slots.js').Given} Given */

const MAGIC = '\x93NUMPY';
const LONGEST_HEADER = 1 << 16;

/** HLO's element types, by their names in files. */
const TYPES = new Map(
  'b1:pred i1:s8 i2:s16 i4:s32 i8:s64 u1:u8 u2:u16 u4:u32 u8:u64 f2:f16 f4:f32 f8:f64 c8:c64 c16:c128'
    .split(' ')
    .map((row) => /** @type {[string, string]} */ (row.split(':'))),
);
const CODES = new Map([...TYPES].map(([code, type]) => [type, code]));
/** NumPy casts from each kind to those that follow; of integers, signed ones do not become unsigned. */
const ORDER = ['pred', 'unsigned', 'signed', 'float', 'complex'];

/** @type {Record<string, (view: DataView, at: number, little: boolean) => number | bigint>} */
const READ = {
  pred: (view, at) => Number(view.getUint8(at) !== 0),
  s8: (view, at) => view.getInt8(at),
  s16: (view, at, little) => view.getInt16(at, little),
  s32: (view, at, little) => view.getInt32(at, little),
  s64: (view, at, little) => view.getBigInt64(at, little),
  u8: (view, at) => view.getUint8(at),
  u16: (view, at, little) => view.getUint16(at, little),
  u32: (view, at, little) => view.getUint32(at, little),
  u64: (view, at, little) => view.getBigUint64(at, little),
  f16: (view, at, little) => half.decode(view.getUint16(at, little)),
  f32: (view, at, little) => view.getFloat32(at, little),
  f64: (view, at, little) => view.getFloat64(at, little),
};
const half = smallFloat('f16');

/** @param {Uint8Array} bytes */
export const isNpy = (bytes) => MAGIC === String.fromCharCode(...bytes.subarray(0, 6));

/**
 * Returns the header of a file, and where its elements begin. Throws if it is damaged.
 * @param {Uint8Array} bytes
 * @param {string} what
 */
function readHeader(bytes, what) {
  if (!isNpy(bytes)) unreadable(`${what} is not an npy file: it does not begin with '\\x93NUMPY'`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = bytes[6] === 1 ? 10 : 12;
  if (bytes.length < start) unreadable(`${what} ends in the middle of the header of an npy file`);
  if (bytes[6] < 1 || bytes[6] > 3) unreadable(`${what} is an npy file of version ${bytes[6]}; known are 1 to 3`);
  const length = start === 10 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > LONGEST_HEADER) unreadable(`${what} is not an npy file: its header would have ${length} bytes`);
  if (bytes.length < start + length) unreadable(`${what} ends in the middle of the header of an npy file`);
  const header = new TextDecoder().decode(bytes.subarray(start, start + length));
  const [, , descr] = /(['"])descr\1\s*:\s*(\[|'[^']*'|"[^"]*")/.exec(header) ?? [];
  const [, , order] = /(['"])fortran_order\1\s*:\s*(True|False)/.exec(header) ?? [];
  const [, , list] = /(['"])shape\1\s*:\s*\(([\d\s,L]*)\)/.exec(header) ?? [];
  const shape = list
    ?.split(',')
    .map((size) => size.replace('L', '').trim())
    .filter(Boolean)
    .map(Number);
  if (!descr || !order || !shape?.every(Number.isSafeInteger))
    return unreadable(`${what} is not an npy file: its header is ${header.trim().slice(0, 100)}`);
  return { descr: descr === '[' ? descr : descr.slice(1, -1), fortran: order === 'True', shape, start: start + length };
}

/** @param {number} count */
const are = (count) => `${count === 1 ? 'is' : 'are'} ${count}`;

/**
 * An input from an .npy file. Numbers of other types are converted as NumPy's "same_kind" does it, if they fit.
 * @param {Slot} slot
 * @param {Uint8Array} bytes
 * @param {string} what
 * @returns {Given}
 */
export function fromNpy(slot, bytes, what) {
  const { descr, fortran, shape, start } = readHeader(bytes, what);
  const [, order, code] = /^([<>=|]?)([a-zA-Z]\d+)$/.exec(descr) ?? [];
  const { kind, bits, store } = numbersOf(slot.type, slot.array);
  // NumPy knows nothing of these types, and keeps so many bytes of each element. Of one it writes a name that it cannot
  // read.
  const opaque =
    (code === `V${slot.array.BYTES_PER_ELEMENT}` && (bits || /^[su][124]$/.test(slot.type))) ||
    (code === 'f1' && slot.type === 'f8e5m2');
  const type = opaque ? slot.type : (TYPES.get(code) ?? '');
  if (!type) refuse(slot, descr === '[' ? 'records' : `elements of type '${descr}'`);
  const given = `${type}[${shape}]`;
  const complex = type[0] === 'c';
  const part = opaque
    ? slot.array.BYTES_PER_ELEMENT === 2
      ? 'u16'
      : slot.type[0] === 's'
        ? 's8'
        : 'u8'
    : complex
      ? type === 'c64'
        ? 'f32'
        : 'f64'
      : type;
  const width = opaque ? slot.array.BYTES_PER_ELEMENT : Number(code.slice(1)) / (complex ? 2 : 1);
  const count = product(shape);
  const [needed, there] = [count * width * (complex ? 2 : 1), bytes.length - start];
  if (there < needed)
    unreadable(`${what} ends early: ${given} takes ${counted(needed, 'byte')}, and there ${are(there)}`, {
      field: slot.name,
    });
  if (there > needed)
    unreadable(`${what} goes on after its end: ${given} takes ${counted(needed, 'byte')}, and there ${are(there)}`, {
      field: slot.name,
    });
  if (!fits(slot, shape)) refuse(slot, given);
  const from = { p: 'pred', s: 'signed', u: 'unsigned', c: 'complex' }[type[0]] ?? 'float';
  if (!opaque && ORDER.indexOf(from) > ORDER.indexOf(kind))
    refuse(slot, given, 'it would lose what the other type has');
  if (type === slot.type && !fortran && (order !== '>' || width === 1))
    return fromRaw(slot, bytes.subarray(start), shape);

  const view = new DataView(bytes.buffer, bytes.byteOffset + start, needed);
  const [read, little] = [READ[part], order !== '>'];
  const array = new slot.array(count * slot.components);
  const place = fortran ? places(shape) : undefined;
  /** @param {number} i @param {number} at */
  const put = (i, at) => {
    const value = read(view, at, little);
    const stored = opaque ? value : store(value);
    if (stored === undefined) refuseNumber(slot, placeOf(shape, Math.floor(i / slot.components)), String(value));
    array[i] = stored;
  };
  for (let i = 0; i < count; i++) {
    const at = (place ? place[i] : i) * width * (complex ? 2 : 1);
    put(i * slot.components, at);
    if (complex) put(i * slot.components + 1, at + width);
  }
  return checked(slot, { array, shape });
}

/**
 * Where each element of a row-major array stands in one whose first dimension is minor.
 * @param {number[]} shape
 */
function places(shape) {
  let found = Uint32Array.of(0);
  let stride = 1;
  for (const size of shape) {
    const next = new Uint32Array(found.length * size);
    for (let i = 0, k = 0; i < found.length; i++) for (let j = 0; j < size; j++) next[k++] = found[i] + j * stride;
    found = next;
    stride *= size;
  }
  return found;
}

/**
 * An input from the bytes of its elements, in row-major order.
 * @param {Slot} slot
 * @param {Uint8Array} bytes
 * @param {number[]} [shape] if it is known
 * @returns {Given}
 */
export function fromRaw(slot, bytes, shape) {
  const width = slot.array.BYTES_PER_ELEMENT * slot.components;
  if (!shape) {
    const [bound, ...rest] = slot.dimensions;
    if (slot.dynamic.slice(1).includes(true))
      refuse(slot, 'raw bytes', 'they do not say what the sizes are; npy and JSON do');
    const row = width * product(isDynamic(slot) ? rest : slot.dimensions);
    if (bytes.length % width)
      unreadable(
        `the body ends in the middle of an element: ${slot.type} takes ${counted(width, 'byte')}, and there ` +
          `${are(bytes.length)}`,
        { field: slot.name },
      );
    const count = row ? bytes.length / row : bytes.length ? NaN : isDynamic(slot) ? bound : 1;
    shape = isDynamic(slot) ? [count, ...rest] : slot.dimensions;
    if (!Number.isInteger(count) || !(isDynamic(slot) ? fits(slot, shape) : count === 1))
      refuse(slot, `${slot.type}[${bytes.length / width}]`);
  }
  // A copy of its own, since elements have to lie at a multiple of their size.
  return checked(slot, { array: new slot.array(bytes.slice().buffer), shape });
}

/**
 * Refuses bytes that stand for no element of a type of less than 8 bits. Those of a negative integer may have zeros
 * above its own bits, as ml_dtypes leaves them. Any byte but 0 is true.
 * @param {Slot} slot
 * @param {Given} given
 */
function checked(slot, given) {
  const { type } = slot;
  const { array, shape } = given;
  const bits = Number(/^[suf](\d+)/.exec(type)?.[1] ?? 8);
  if (type === 'pred') for (let i = 0; i < array.length; i++) array[i] = array[i] !== 0;
  if (bits < 8) {
    const [least, end] = [type[0] === 's' ? -(2 ** (bits - 1)) : 0, 2 ** bits];
    for (let i = 0; i < array.length; i++) {
      if (array[i] < least || array[i] >= end) refuseNumber(slot, placeOf(shape, i), String(array[i]));
      if (array[i] >= end + least) array[i] -= end;
    }
  }
  return given;
}

/** The bytes of an array. @param {Given} given */
export const toRaw = ({ array }) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/**
 * An array as an .npy file. Types that NumPy lacks are so many bytes of an unknown kind, as numpy.save writes them.
 * @param {Slot} slot
 * @param {Given} given
 */
export function toNpy({ type, array: { BYTES_PER_ELEMENT } }, given) {
  const code = CODES.get(type) ?? `V${BYTES_PER_ELEMENT}`;
  const order = /[bV]|1$/.test(code) ? '|' : '<';
  const shape = given.shape.length === 1 ? `${given.shape},` : given.shape.join(', ');
  const text = `{'descr': '${order}${code}', 'fortran_order': False, 'shape': (${shape}), }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10;
  const head = new TextEncoder().encode(`${MAGIC.slice(1)}\x01\0\0\0${text.padEnd(length - 1)}\n`);
  const data = toRaw(given);
  const file = new Uint8Array(1 + head.length + data.length);
  file[0] = 0x93;
  file.set(head, 1);
  new DataView(file.buffer).setUint16(8, length, true);
  file.set(data, 1 + head.length);
  return file;
}
