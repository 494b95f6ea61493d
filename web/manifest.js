// The manifest, checked before anything relies on it: a manifest can lie. Mirrors xla_wasm/host/manifest.py, leaf.py and
// json_object.py, with which it shares the table of fields.

import { ArtifactError } from './errors.js';
import { TYPES } from './arrays.js';
import { supports } from './features.js';
import { decode, file, hints } from './source.js';
import { INITS, PARAMETERS, RESULTS, STEPS, TOP } from './manifest_fields.js';

const PAGE = 65536;
export const MAX_RANK = 32;

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

/** The end of a message about an artifact that is not what the compiler writes. */
export const ANEW = '; it is damaged, or made by something else: compile it anew';

/** @type {(where: string, why: string) => never} */
export function fail(where, why) {
  throw new ArtifactError(`the artifact's manifest is wrong at ${where || 'the top'}: ${why}${ANEW}`);
}

/** @param {unknown} value */
export function show(value) {
  try {
    return String(JSON.stringify(value)).slice(0, 60);
  } catch {
    return 'lists in lists'; // deeper than any stack
  }
}

/**
 * A row of a table in manifest_fields.js, or what takes the place of a part of it.
 * @typedef {{low?: number, high?: number, size?: number, align?: number}} Row
 */

/** A JSON object read field by field, with the path to it for messages. */
export class Fields {
  /**
   * @param {any} raw
   * @param {string} path
   * @param {Record<string, any>} rows the table of its fields
   */
  constructor(raw, path, rows = {}) {
    this.path = path;
    this.rows = rows;
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
      fail(path, `expected an object, got ${show(raw)}`);
    this.raw = raw;
  }

  /** @param {string} key */
  at(key) {
    return this.path ? `${this.path}.${key}` : key;
  }

  /**
   * @param {string} key
   * @param {string} why
   * @returns {never}
   */
  fail(key, why) {
    return fail(this.at(key), why);
  }

  /**
   * @param {string} key
   * @returns {any}
   */
  get(key) {
    if (!Object.hasOwn(this.raw, key)) this.fail(key, 'it is missing');
    return this.raw[key];
  }

  /**
   * @param {string} key
   * @param {Record<string, any>} [rows] the table of its fields
   */
  object(key, rows) {
    return new Fields(this.get(key), this.at(key), rows);
  }

  /**
   * An integer within its bounds.
   * @param {string} key
   * @param {Row} [given]
   */
  int(key, given) {
    const { low = 0, high = Number.MAX_SAFE_INTEGER } = { ...this.rows[key], ...given };
    const value = this.get(key);
    if (!Number.isSafeInteger(value) || value < low || value > high)
      this.fail(key, `expected an integer from ${low} to ${high}, got ${show(value)}`);
    return /** @type {number} */ (value);
  }

  /**
   * @param {string} key
   * @param {number} count
   */
  index(key, count) {
    return this.get(key) === null ? null : this.int(key, { high: count - 1 });
  }

  /**
   * A string, one of the choices if there are any.
   * @param {string} key
   */
  text(key) {
    const choices = this.rows[key];
    const value = this.get(key);
    if (choices ? !choices.includes(value) : typeof value !== 'string')
      this.fail(key, `expected ${choices ? `one of ${choices.join(', ')}` : 'a string'}, got ${show(value)}`);
    return value;
  }

  /** @param {string} key */
  flag(key) {
    const value = this.get(key);
    if (typeof value !== 'boolean') this.fail(key, `expected true or false, got ${show(value)}`);
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
    if (!Array.isArray(value)) this.fail(key, `expected a list, got ${show(value)}`);
    const wrong = value.findIndex((/** @type {any} */ item) => !passes(item));
    if (wrong >= 0) this.fail(`${key}[${wrong}]`, `unexpected ${show(value[wrong])}`);
    return value;
  }

  /**
   * @template T
   * @param {string} key
   * @param {(item: Fields) => T} read
   * @param {Record<string, any>} [rows] the table of their fields
   */
  objects(key, read, rows) {
    return this.list(key).map((item, i) => read(new Fields(item, this.at(`${key}[${i}]`), rows)));
  }

  /**
   * The address of `size` bytes inside the memory.
   * @param {string} key
   * @param {number} memory
   * @param {Row} [given]
   */
  address(key, memory, given) {
    const { size = 0, align = 1 } = { ...this.rows[key], ...given };
    const address = this.int(key);
    if (address % align) this.fail(key, `${address} is not a multiple of ${align}`);
    if (address + size > memory)
      this.fail(key, `${size} bytes at ${address} would reach beyond the memory of ${memory} bytes`);
    return address;
  }
}

const isText = (/** @type {unknown} */ item) => typeof item === 'string';
export const isSize = (/** @type {unknown} */ item) => Number.isSafeInteger(item) && /** @type {number} */ (item) >= 0;

/**
 * @param {Fields} item
 * @param {number} memory
 * @param {boolean} placed whether it has a place of its own in the memory
 * @returns {Leaf}
 */
export function readLeaf(item, memory, placed = true) {
  const element_type = item.text('element_type');
  const type = TYPES[element_type] ?? item.fail('element_type', `'${element_type}' is not the type of an array`);
  const align = type.array.BYTES_PER_ELEMENT;
  const width = align * type.components;
  /** @type {number[]} */
  const dimensions = item.list('dimensions', isSize);
  const most = dimensions.reduce((product, d) => product * (d || 1), width);
  if (dimensions.length > MAX_RANK || most > Number.MAX_SAFE_INTEGER)
    item.fail('dimensions', 'they are too many or too large');
  /** @type {number[]} */
  const minor_to_major = item.list('minor_to_major', isSize);
  const order = [...dimensions.keys()].join();
  if ([...minor_to_major].sort((a, b) => a - b).join() !== order)
    item.fail('minor_to_major', `${show(minor_to_major)} is not a permutation of [${order}]`);
  const bytes = item.int('bytes');
  const expected = dimensions.reduce((product, d) => product * d, width);
  if (bytes !== expected) item.fail('bytes', `${element_type}[${dimensions}] takes ${expected} bytes, not ${bytes}`);
  return {
    name: item.text('name'),
    element_type,
    dimensions,
    minor_to_major,
    raw: item.raw,
    offset: placed ? item.address('offset', memory, { size: bytes, align }) : 0,
    bytes,
    kind: /** @type {Leaf['kind']} */ (item.text('kind')),
  };
}

/**
 * @param {Fields} item
 * @param {number} memory
 * @returns {Init}
 */
function readInit(item, memory) {
  const kind = /** @type {Init['kind']} */ (item.text('kind'));
  const bytes = item.int('bytes');
  const sidecar = kind === 'sidecar';
  const part = 'part' in item.raw ? item.int('part', { high: bytes }) : bytes;
  return {
    index: item.int('index'),
    kind,
    name: item.text('name'),
    staging: kind === 'segment' ? 0 : item.address('staging', memory, { size: part }),
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
function parseManifest(raw) {
  const top = new Fields(raw, '', TOP);
  if ('kind' in top.raw) top.fail('kind', 'it runs by itself');
  top.int('format');
  top.list('features', isText);
  const memory = top.int('pages') * PAGE;
  const steps = top.object('steps', STEPS);
  /** @type {string[]} */
  const names = steps.list('names', isText);
  const count = steps.int('count');
  if (count !== names.length) steps.fail('count', `it is ${count}, the number of names ${names.length}`);
  steps.address('address', memory, { size: count * steps.int('entry_bytes') });
  const inits = top.objects('inits', (item) => readInit(item, memory), INITS);
  const results = top.objects('results', (item) => readLeaf(item, memory), RESULTS);
  const seen = new Set();
  const parameters = top.objects(
    'parameters',
    (item) => {
      const init = item.index('init', inits.length);
      const leaf = {
        ...readLeaf(item, memory, init === null),
        alias: item.index('alias', results.length),
        init,
      };
      if (seen.has(leaf.name)) item.fail('name', `'${leaf.name}' names two parameters`);
      seen.add(leaf.name);
      if (init !== null) {
        const { kind, bytes } = inits[init];
        if (leaf.kind !== 'weight' || kind !== leaf.kind || bytes !== leaf.bytes)
          item.fail('init', `the ${leaf.kind} has ${leaf.bytes} bytes, its init is for a ${kind} of ${bytes}`);
      }
      return leaf;
    },
    PARAMETERS,
  );
  for (const key of ['name', 'hash', 'producer', 'target']) top.text(key);
  for (const key of ['config', 'request']) top.address(key, memory);
  top.int('peak_bytes', { high: memory });
  top.list('requests');
  top.get('devices');
  if ('stateful' in top.raw) top.flag('stateful');
  if ('stop' in top.raw) top.index('stop', memory);
  if (top.raw.undivided != null) top.text('undivided');
  return {
    ...top.raw,
    parameters,
    results,
    inits,
    steps: names,
    memoryBytes: memory,
    sidecarBytes: inits.reduce(
      (most, { kind, sidecar_offset, bytes }) => Math.max(most, kind === 'sidecar' ? sidecar_offset + bytes : 0),
      0,
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
  let manifest;
  try {
    raw = JSON.parse(decode(section));
    manifest = parseManifest(raw);
  } catch (error) {
    throw (await hints()).noManifest(error, section, raw);
  }
  const leaves = [...manifest.parameters, ...manifest.results];
  if (leaves.some((leaf) => leaf.minor_to_major.some((d, i) => d + i + 1 !== leaf.dimensions.length)))
    (await file('orders', () => import('./arrays/orders.js'))).order(leaves);
  const lacking = manifest.features.filter((feature) => !supports(feature));
  if (lacking.length) throw (await hints()).featureless(lacking);
  return manifest;
}
