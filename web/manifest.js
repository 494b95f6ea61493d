// The manifest, checked before anything relies on it: a manifest can lie. Mirrors xla_wasm/host/manifest.py.

import { ArtifactError } from './errors.js';
import { TYPES, counted } from './arrays.js';
import { supports } from './features.js';

const PAGE = 65536;
const MAX_RANK = 32;

/**
 * An array in the module's memory: a leaf of a parameter or of the result.
 * @typedef {object} Leaf
 * @property {string} name
 * @property {string} element_type the HLO element type, such as `f32`
 * @property {number[]} dimensions
 * @property {number[]} minor_to_major
 * @property {number} offset
 * @property {number} bytes
 * @property {'input' | 'weight' | 'state' | 'output' | 'operand' | 'result'} kind
 * @property {any} raw the manifest's entry, which may say more: of the layout that callers use, see arrays/layouts.js,
 *   or of dynamic dimensions, see arrays/dynamic.js
 * @property {Uint32Array} [order] where each element of a row-major array stands, if not there, see arrays/orders.js
 * @property {number | null} [alias]
 * @property {number | null} [init]
 */

/**
 * One `init(index)` call; its bytes come from the module, the weights file or `exe.set`.
 * @typedef {object} Init
 * @property {number} index
 * @property {'segment' | 'sidecar' | 'weight'} kind
 * @property {string} name
 * @property {number} staging
 * @property {number} bytes
 * @property {number} part the bytes that come at a time, each to the same place and for a call of a number more
 * @property {number} sidecar_offset
 * @property {string} sha256
 */

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {string} hash
 * @property {string} producer
 * @property {string} target
 * @property {string[]} features
 * @property {number} pages
 * @property {number} peak_bytes
 * @property {Leaf[]} parameters
 * @property {Leaf[]} results
 * @property {Init[]} inits
 * @property {string[]} steps the HLO instruction of each step
 * @property {number} config
 * @property {any[]} requests what a run may ask of the host: see requests/requests.js
 * @property {number} request where the record of the request lies that a run waits for: its number, and the step to go
 *   on with
 * @property {any} devices the devices that the program is for, see devices/exchange.js; null if it is the same on all
 * @property {any} [structure] in which structures the function that it was lowered from has its arguments and results,
 *   see arrays/structures.js
 * @property {boolean} stateful whether the module itself keeps something from run to run
 * @property {string} undivided why global arrays cannot be cut for it, if they cannot
 * @property {any} threads what threads share, see threads/threads.js; undefined if there is one
 * @property {number} memoryBytes
 * @property {number} sidecarBytes
 */

/** @type {(where: string, why: string) => never} */
export function fail(where, why) {
  throw new ArtifactError(`the artifact's manifest is wrong at ${where || 'the top'}: ${why}`);
}

/** @type {(where: string, what: string, value: unknown) => never} */
const expected = (where, what, value) => fail(where, `expected ${what}, got ${show(value)}`);

/** @param {unknown} value */
export function show(value) {
  try {
    return String(JSON.stringify(value)).slice(0, 60);
  } catch {
    return 'lists in lists'; // deeper than any stack
  }
}

/** A JSON object read field by field, with the path to it for messages. */
export class Fields {
  /**
   * @param {any} raw
   * @param {string} path
   */
  constructor(raw, path) {
    this.path = path;
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) expected(path, 'an object', raw);
    this.raw = raw;
  }

  /** @param {string} key */
  at(key) {
    return this.path ? `${this.path}.${key}` : key;
  }

  /**
   * @param {string} key
   * @returns {any}
   */
  get(key) {
    if (!Object.hasOwn(this.raw, key)) fail(this.at(key), 'it is missing');
    return this.raw[key];
  }

  /** @param {string} key */
  int(key, low = 0, high = Number.MAX_SAFE_INTEGER) {
    const value = this.get(key);
    if (!Number.isSafeInteger(value) || value < low || value > high)
      expected(this.at(key), `an integer from ${low} to ${high}`, value);
    return /** @type {number} */ (value);
  }

  /**
   * @param {string} key
   * @param {number} count
   */
  index(key, count) {
    return this.get(key) === null ? null : this.int(key, 0, count - 1);
  }

  /**
   * @param {string} key
   * @param {string[]} [choices]
   */
  text(key, choices) {
    const value = this.get(key);
    if (typeof value !== 'string') expected(this.at(key), 'a string', value);
    if (choices && !choices.includes(value)) expected(this.at(key), `one of ${choices.join(', ')}`, value);
    return value;
  }

  /**
   * A list whose items all pass.
   * @template T
   * @param {string} key
   * @param {(item: any) => boolean} [passes]
   * @returns {T[]}
   */
  list(key, passes = () => true) {
    const value = this.get(key);
    if (!Array.isArray(value)) expected(this.at(key), 'a list', value);
    const wrong = value.findIndex((/** @type {any} */ item) => !passes(item));
    if (wrong >= 0) fail(`${this.at(key)}[${wrong}]`, `unexpected ${show(value[wrong])}`);
    return value;
  }

  /**
   * @template T
   * @param {string} key
   * @param {(item: Fields) => T} read
   */
  objects(key, read) {
    return this.list(key).map((item, i) => read(new Fields(item, `${this.at(key)}[${i}]`)));
  }

  /**
   * An address of `size` bytes inside the memory.
   * @param {string} key
   * @param {number} size
   * @param {number} memory
   * @param {number} align
   */
  address(key, size, memory, align) {
    const address = this.int(key, 0, memory);
    if (address % align) fail(this.at(key), `${address} is not a multiple of ${align}`);
    if (address + size > memory)
      fail(this.at(key), `${counted(size, 'byte')} at ${address} would reach beyond the memory of ${memory} bytes`);
    return address;
  }
}

const isText = (/** @type {unknown} */ item) => typeof item === 'string';
export const isSize = (/** @type {unknown} */ item) => Number.isSafeInteger(item) && /** @type {number} */ (item) >= 0;

/**
 * @param {Fields} item
 * @param {number} memory
 * @param {string[]} kinds
 * @param {boolean} placed
 * @returns {Leaf}
 */
export function readLeaf(item, memory, kinds, placed) {
  const element_type = item.text('element_type');
  const type = TYPES[element_type];
  if (!type) fail(item.at('element_type'), `'${element_type}' is not the type of an array`);
  const width = type.array.BYTES_PER_ELEMENT * type.components;
  /** @type {number[]} */
  const dimensions = item.list('dimensions', isSize);
  if (dimensions.length > MAX_RANK) fail(item.at('dimensions'), `rank ${dimensions.length} is above ${MAX_RANK}`);
  if (dimensions.reduce((product, d) => product * (d || 1), width) > Number.MAX_SAFE_INTEGER)
    fail(item.at('dimensions'), 'the array is too large');
  /** @type {number[]} */
  const minor_to_major = item.list('minor_to_major', isSize);
  if ([...minor_to_major].sort((a, b) => a - b).join() !== [...dimensions.keys()].join()) {
    fail(
      item.at('minor_to_major'),
      `${show(minor_to_major)} is not a permutation of ${counted(dimensions.length, 'dimension')}`,
    );
  }
  const bytes = item.int('bytes');
  const expected = dimensions.reduce((product, d) => product * d, width);
  if (bytes !== expected)
    fail(item.at('bytes'), `${element_type}[${dimensions}] takes ${counted(expected, 'byte')}, not ${bytes}`);
  return {
    name: item.text('name'),
    element_type,
    dimensions,
    minor_to_major,
    raw: item.raw,
    offset: placed ? item.address('offset', bytes, memory, type.array.BYTES_PER_ELEMENT) : 0,
    bytes,
    kind: /** @type {Leaf['kind']} */ (item.text('kind', kinds)),
  };
}

/**
 * @param {Fields} item
 * @param {number} memory
 * @returns {Init}
 */
function readInit(item, memory) {
  const kind = /** @type {Init['kind']} */ (item.text('kind', ['segment', 'sidecar', 'weight']));
  const bytes = item.int('bytes');
  const sidecar = kind === 'sidecar';
  const part = 'part' in item.raw ? item.int('part', 1, bytes) : bytes;
  return {
    index: item.int('index', 0, 2 ** 31 - 1),
    kind,
    name: item.text('name'),
    staging: kind === 'segment' ? 0 : item.address('staging', part, memory, 1),
    bytes,
    part,
    sidecar_offset: sidecar ? item.int('sidecar_offset') : 0,
    sha256: sidecar ? item.text('sha256') : '',
  };
}

/**
 * Checks every field; throws ArtifactError naming the first that is wrong.
 * @param {unknown} raw
 * @returns {Manifest}
 */
export function parseManifest(raw) {
  const top = new Fields(raw, '');
  const format = top.int('format');
  // In format 2 weights come in parts.
  if (format < 1 || format > 2) fail('format', `this xla_wasm reads formats 1 and 2, the artifact has ${format}`);
  /** @type {string[]} */
  const features = top.list('features', isText);
  const memory = top.int('pages', 1, 65536) * PAGE;
  const steps = new Fields(top.get('steps'), 'steps');
  /** @type {string[]} */
  const names = steps.list('names', isText);
  const count = steps.int('count');
  if (count !== names.length) fail('steps.count', `${counted(count, 'step')}, but ${counted(names.length, 'name')}`);
  steps.address('address', count * steps.int('entry_bytes', 1), memory, 4);
  const inits = top.objects('inits', (item) => readInit(item, memory));
  const results = top.objects('results', (item) => readLeaf(item, memory, ['output', 'state'], true));
  const seen = new Set();
  const parameters = top.objects('parameters', (item) => {
    const init = item.index('init', inits.length);
    const leaf = {
      ...readLeaf(item, memory, ['input', 'weight', 'state'], init === null),
      alias: item.index('alias', results.length),
      init,
    };
    if (seen.has(leaf.name)) fail(item.at('name'), `'${leaf.name}' names two parameters`);
    seen.add(leaf.name);
    if (init !== null) {
      if (leaf.kind !== 'weight' || inits[init].kind !== 'weight')
        fail(item.at('init'), `a parameter of kind ${leaf.kind} with an init of kind ${inits[init].kind}`);
      if (inits[init].bytes !== leaf.bytes)
        fail(item.at('init'), `the weight has ${counted(leaf.bytes, 'byte')}, its init ${inits[init].bytes}`);
    }
    return leaf;
  });
  for (const key of ['name', 'hash', 'producer']) top.text(key);
  return {
    ...top.raw,
    target: top.text('target', ['simd128', 'relaxed-simd']),
    features,
    pages: memory / PAGE,
    peak_bytes: top.int('peak_bytes', 0, memory),
    parameters,
    results,
    inits,
    steps: names,
    config: top.address('config', 4, memory, 4),
    requests: top.list('requests'),
    request: top.address('request', 8, memory, 4),
    memoryBytes: memory,
    sidecarBytes: Math.max(
      0,
      ...inits.filter((init) => init.kind === 'sidecar').map((init) => init.sidecar_offset + init.bytes),
    ),
  };
}

/**
 * The manifest inside a compiled module.
 * @param {WebAssembly.Module} module
 */
export async function readManifest(module) {
  const [section] = WebAssembly.Module.customSections(module, 'xla_wasm');
  let raw;
  try {
    raw = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(section));
  } catch (error) {
    throw (await import('./diagnostics/hints.js')).noManifest(section, error);
  }
  if (raw?.kind) throw (await import('./diagnostics/hints.js')).byItself(raw);
  const manifest = parseManifest(raw);
  const leaves = [...manifest.parameters, ...manifest.results];
  if (leaves.some((leaf) => leaf.minor_to_major.some((d, i) => d + i + 1 !== leaf.dimensions.length)))
    (await import('./arrays/orders.js')).order(leaves);
  const lacking = manifest.features.filter((feature) => !supports(feature));
  if (lacking.length) throw (await import('./diagnostics/hints.js')).featureless(lacking);
  return manifest;
}
