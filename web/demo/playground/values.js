// Arrays that go in and come out: how they are chosen, and how they are shown.

import { TYPES, accept } from '../../arrays.js';
import { seeded } from '../shared.js';

/** @typedef {{name: string, element_type: string, dimensions: number[], kind: string, bytes: number}} Leaf */

const SHOWN = 256; // numbers of a result that are shown as text
const MOST_PIXELS = 1 << 22;
const KINDS = { random: 'random', zeros: 'zeros', ones: 'ones', count: '0, 1, 2, …', own: 'own values' };

const describe = (/** @type {Leaf} */ { element_type, dimensions }) => `${element_type}[${dimensions}]`;
const count = (/** @type {Leaf} */ leaf) => leaf.dimensions.reduce((a, b) => a * b, 1);

/**
 * An array of one of the kinds that can be chosen.
 * @param {Leaf} leaf
 * @param {string} kind
 * @param {number} seed
 * @returns {any}
 */
export function make(leaf, kind, seed) {
  const type = TYPES[leaf.element_type];
  const array = new type.array(count(leaf) * type.components);
  const big = array instanceof BigInt64Array || array instanceof BigUint64Array;
  const store = (/** @type {number} */ i, /** @type {number} */ value) => (array[i] = big ? BigInt(value) : value);
  const random = seeded(seed);
  const width = type.bits ?? 64;
  const wide = type.kind === 'int' && width < 8 ? 2 ** (width - (leaf.element_type[0] === 's' ? 1 : 0)) : 10;
  for (let i = 0; i < array.length; i++) {
    let value = kind === 'zeros' ? 0 : kind === 'ones' ? 1 : i;
    if (kind === 'random') {
      if (type.kind === 'float' || type.kind === 'bits')
        value = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
      else value = Math.floor(random() * (type.kind === 'pred' ? 2 : wide));
    } else if (type.kind === 'pred') value %= 2;
    else if (type.kind === 'int') value %= width < 8 ? wide : width === 8 ? 100 : 2 ** 15;
    if (type.kind === 'bits') value = bits(leaf.element_type, value);
    store(i, value);
  }
  return array;
}

/**
 * The bits of a number in a type that JavaScript has no arrays for. Types of 8 bits and less get small codes, which are
 * numbers in all.
 * @param {string} type
 * @param {number} value
 */
function bits(type, value) {
  if (type === 'bf16') return new Uint32Array(Float32Array.of(value).buffer)[0] >>> 16;
  if (type === 'f16') {
    const exponent = Math.max(-14, Math.min(15, Math.floor(Math.log2(Math.abs(value) || 2 ** -24))));
    const part = Math.round((Math.abs(value) / 2 ** exponent - 1) * 1024);
    return value === 0 ? 0 : (value < 0 ? 0x8000 : 0) | (((exponent + 15) << 10) | Math.max(0, Math.min(1023, part)));
  }
  const width = Number(/^f(\d)/.exec(type)?.[1] ?? 8);
  return Math.abs(Math.round(value * 4)) % (1 << (width - 2));
}

/** The numbers of an array of raw bits, as far as they can be told. @param {Leaf} leaf @param {any} array */
function numbers(leaf, array) {
  if (leaf.element_type === 'bf16') return new Float32Array(Uint32Array.from(array, (code) => code << 16).buffer);
  return array;
}

/**
 * The rows of controls for a module's inputs.
 * @param {HTMLElement} root
 * @param {Leaf[]} leaves
 */
export function inputRows(root, leaves) {
  root.replaceChildren();
  const rows = leaves.map((leaf, i) => {
    const row = document.createElement('div');
    row.className = 'input';
    const label = document.createElement('label');
    label.htmlFor = `input-${i}`;
    label.innerHTML = '<b></b> <code></code>';
    /** @type {HTMLElement} */ (label.firstChild).textContent = leaf.name;
    /** @type {HTMLElement} */ (label.lastChild).textContent = describe(leaf);
    const kind = document.createElement('select');
    kind.id = `input-${i}`;
    kind.className = 'box';
    for (const [value, title] of Object.entries(KINDS)) kind.add(new Option(title, value));
    const own = document.createElement('textarea');
    own.className = 'box own';
    own.rows = 3;
    own.hidden = true;
    own.ariaLabel = `Values of ${leaf.name}, as JSON`;
    own.spellcheck = false;
    kind.addEventListener('change', () => {
      own.hidden = kind.value !== 'own';
      if (!own.hidden && !own.value) own.value = text(leaf, make(leaf, 'random', i + 1), 1e5);
      if (!own.hidden) own.focus();
    });
    row.append(label, kind, own);
    root.append(row);
    return () => {
      if (kind.value !== 'own') return make(leaf, kind.value, i + 1);
      return accept(/** @type {any} */ (leaf), parse(leaf, own.value), `argument ${i} ('${leaf.name}')`);
    };
  });
  if (!leaves.length) root.textContent = 'The module takes no inputs.';
  return () => rows.map((read) => read());
}

/** @param {Leaf} leaf @param {string} typed */
function parse(leaf, typed) {
  const big = /^[su]64$/.test(leaf.element_type);
  try {
    const value = JSON.parse(typed.trim() || '[]');
    /** @type {(item: any) => any} */
    const deep = (item) =>
      Array.isArray(item) ? item.map(deep) : big && Number.isSafeInteger(item) ? BigInt(item) : item;
    return deep(value);
  } catch {
    throw new Error(`The values of ${leaf.name} are no JSON: write numbers as in [1, 2.5, 3] or [[1, 2], [3, 4]].`);
  }
}

/** @param {any} value */
const format = (value) =>
  String(typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value);

/**
 * An array as nested brackets; long ones end in dots.
 * @param {Leaf} leaf
 * @param {any} array
 * @param {number} most
 */
function text(leaf, array, most) {
  const type = TYPES[leaf.element_type];
  const shape = type.components > 1 ? [...leaf.dimensions, 2] : leaf.dimensions;
  const values = numbers(leaf, array);
  let at = 0;
  const part = (/** @type {number} */ depth) => {
    if (depth === shape.length) return format(values[at++]);
    /** @type {string[]} */
    const items = [];
    for (let i = 0; i < shape[depth] && at < most; i++) items.push(part(depth + 1));
    if (items.length < shape[depth]) items.push('…');
    const deep = depth < shape.length - 1;
    return `[${items.join(deep ? `,\n${' '.repeat(depth + 1)}` : ', ')}]`;
  };
  return part(0);
}

/**
 * Shows a result: its numbers, their range, and a picture.
 * @param {Leaf} leaf
 * @param {any} array
 */
export function resultView(leaf, array) {
  const figure = document.createElement('figure');
  figure.className = 'result';
  const caption = document.createElement('figcaption');
  caption.innerHTML = '<b></b> <code></code> <span></span>';
  const [name, type, range] = caption.children;
  name.textContent = leaf.name;
  type.textContent = describe(leaf);
  figure.append(caption);
  const values = numbers(leaf, array);
  let [low, high, sum, finite] = [Infinity, -Infinity, 0, 0];
  for (const item of values) {
    const value = Number(item);
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    sum += value;
    finite++;
  }
  const others = finite < values.length ? `, ${values.length - finite} not finite` : '';
  if (finite) range.textContent = `${format(low)} to ${format(high)}, mean ${format(sum / finite)}${others}`;
  if (values.length > 1 && values.length <= MOST_PIXELS) figure.append(heatMap(leaf, values, low, high));
  const pre = document.createElement('pre');
  pre.tabIndex = 0;
  pre.ariaLabel = `Values of ${leaf.name}`;
  pre.textContent = text(leaf, array, SHOWN);
  figure.append(pre);
  return figure;
}

/**
 * A pixel for every element: light to dark from the lowest to the highest, or two colours where there are both signs.
 * @param {Leaf} leaf
 * @param {any} values
 * @param {number} low
 * @param {number} high
 */
function heatMap(leaf, values, low, high) {
  const last = leaf.dimensions[leaf.dimensions.length - 1] ?? 1;
  const components = values.length / count(leaf);
  const columns = leaf.dimensions.length > 1 && last > 1 ? last * components : Math.min(values.length, 128);
  const rows = Math.ceil(values.length / columns);
  const canvas = document.createElement('canvas');
  canvas.width = columns;
  canvas.height = rows;
  canvas.setAttribute('role', 'img');
  canvas.ariaLabel = `Heat map of ${leaf.name}, ${rows} rows of ${columns}`;
  canvas.style.setProperty('--form', String(Math.min(8, Math.max(0.4, columns / rows))));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const image = context.createImageData(columns, rows);
  const signed = low < 0 && high > 0;
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i]);
    const at = 4 * i;
    image.data[at + 3] = 255;
    if (!Number.isFinite(value)) image.data[at] = 255;
    else if (signed) {
      const t = value / most;
      // From blue over a near white to orange.
      const to = t < 0 ? [44, 74, 196] : [214, 92, 20];
      for (let c = 0; c < 3; c++) image.data[at + c] = 246 + (to[c] - 246) * Math.abs(t);
    } else {
      const t = high > low ? (value - low) / (high - low) : 0.5;
      image.data.set(scale(t), at);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const STOPS = [
  [28, 16, 68],
  [79, 18, 123],
  [181, 54, 122],
  [251, 135, 97],
  [252, 253, 191],
];

/** @param {number} t */
function scale(t) {
  const at = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
  const i = Math.min(Math.floor(at), STOPS.length - 2);
  return [0, 1, 2].map((c) => STOPS[i][c] + (STOPS[i + 1][c] - STOPS[i][c]) * (at - i));
}
