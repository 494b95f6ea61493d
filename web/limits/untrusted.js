// Modules of strangers: `load(source, {untrusted: true})` takes this in. It sets the limits that the caller did not
// set, and reads the binary sections of a module before the engine compiles it, for what a module may have without
// exporting it. Mirrors what xla_wasm/host/instance.py and wasmtime's limits do.

import { ArgumentError, ArtifactError, LimitError, UnsupportedError } from '../errors.js';
import { readBytes } from '../bytes.js';
import { builtin } from '../source.js';

/** @typedef {import('../load.js').LoadOptions} LoadOptions */
/** @typedef {import('../manifest.js').Manifest} Manifest */
/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {import('../source.js').Source | import('../source.js').Builds} Sources */

const DEFAULTS = { memoryLimit: 2 ** 30, timeout: 10 };
// Bytes that the file of a module may always have: code is larger than memory in small programs.
const LEAST_FILE = 2 ** 26;
const MAX_TABLE = 2 ** 20; // as Python's host allows
const MAX_CUSTOM = 2 ** 24; // bytes of a custom section: as lists and objects a manifest takes many times its length
const HEAD = '0,97,115,109,1,0,0,0';
const SECTIONS = [
  'custom',
  'type',
  'import',
  'function',
  'table',
  'memory',
  'global',
  'export',
  'start',
  'element',
  'code',
  'data',
  'data count',
];
const VALUE_TYPES = [0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f]; // i32, i64, f32, f64, v128, funcref, externref

/** @type {(why: string) => never} */
function refuse(why) {
  throw new ArtifactError(`a module loaded with untrusted: true ${why}`);
}

/**
 * The source and the options with every limit that the caller did not set.
 * @param {Sources} source
 * @param {LoadOptions} options
 * @returns {[Sources, LoadOptions]}
 */
export function limited(source, options) {
  const { untrusted, worker = true, memoryLimit = DEFAULTS.memoryLimit, timeout = DEFAULTS.timeout } = options;
  if (untrusted !== true) throw new ArgumentError(`untrusted is true or false, not ${untrusted}`);
  if (!worker)
    throw new ArgumentError(
      'untrusted: true loads into a worker, the only place where a time limit can end a module: leave ' +
        'worker: false out',
    );
  if (typeof memoryLimit !== 'number' || !(memoryLimit > 0))
    throw new ArgumentError(`memoryLimit is in bytes, above 0; got ${memoryLimit}`);
  if (typeof Worker === 'undefined' && !builtin('node:worker_threads'))
    throw new UnsupportedError('untrusted: true needs workers, which there are none of here');
  // Relaxed operations give what the processor likes, and no engine can be told otherwise.
  const builds = /** @type {import('../source.js').Builds | null | undefined} */ (source);
  const isBuilds = typeof builds === 'object' && builds !== null && Object.getPrototypeOf(builds) === Object.prototype;
  return [(isBuilds && builds.simd128) || source, { ...options, worker, memoryLimit, timeout }];
}

/**
 * The bytes of a module, whose sections hold nothing that the limits do not bound.
 * @param {import('../source.js').Source} source
 * @param {LoadOptions} options
 * @param {AbortSignal} [signal]
 */
export async function readModule(source, { memoryLimit }, signal) {
  if (Object.prototype.toString.call(source) === '[object WebAssembly.Module]') {
    throw new ArgumentError(
      'untrusted: true takes the address or the bytes of a module, since nobody can see what a compiled ' +
        'WebAssembly.Module has: pass those',
    );
  }
  const most = mostBytes(memoryLimit);
  const bytes = await readBytes(/** @type {import('../source.js').Bytes} */ (source), signal, most);
  if (bytes.length > most)
    throw new LimitError(
      `the file of the module has more than the ${most} bytes that a module with this memoryLimit may have`,
    );
  checkSections(bytes);
  return bytes;
}

/**
 * The most bytes that the file of a module may have.
 * @param {number} [memoryLimit]
 */
export const mostBytes = (memoryLimit = Infinity) => Math.max(memoryLimit, LEAST_FILE);

/** Reads numbers and bytes of a module. */
class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  byte() {
    if (this.at >= this.end) refuse('is cut short');
    return this.bytes[this.at++];
  }

  /** An unsigned number of at most 32 bits. */
  unsigned() {
    let value = 0;
    for (let factor = 1; factor <= 2 ** 28; factor *= 128) {
      const byte = this.byte();
      value += (byte & 127) * factor;
      if (byte < 128) {
        if (value >= 2 ** 32) break;
        return value;
      }
    }
    return refuse('has a number of more than 32 bits where none belongs');
  }

  /** The next bytes, so many of them. @param {number} size */
  part(size) {
    if (size > this.end - this.at) refuse('is cut short');
    this.at += size;
    return new Reader(this.bytes, this.at - size, this.at);
  }
}

/** Throws if a module has what no limit bounds. @param {Uint8Array} bytes */
function checkSections(bytes) {
  const reader = new Reader(bytes);
  // The engine refuses these, and the loader says what they probably are.
  if (String(bytes.subarray(0, 8)) !== HEAD) return;
  reader.at = 8;
  while (reader.at < bytes.length) {
    const id = reader.byte();
    const section = reader.part(reader.unsigned());
    const name = SECTIONS[id];
    if (!name) refuse(`may not have section ${id}${id === 13 ? ', of exceptions' : ''}`);
    if (name === 'custom' && section.end - section.at > MAX_CUSTOM)
      refuse(`may have custom sections of ${MAX_CUSTOM} bytes at most, such as its manifest`);
    if (name === 'start') refuse('may not have a start function');
    if (name === 'type') checkTypes(section);
    if (name === 'table') checkTables(section);
    if (name === 'memory') checkMemories(section);
  }
}

/**
 * Types of functions only: objects of other types lie in the engine's heap, which no limit bounds.
 * @param {Reader} section
 */
function checkTypes(section) {
  for (let count = section.unsigned(); count; count--) {
    if (section.byte() !== 0x60) refuse('may have types of functions only, no garbage-collected objects');
    for (let list = 0; list < 2; list++) {
      for (let n = section.unsigned(); n; n--)
        if (!VALUE_TYPES.includes(section.byte()))
          refuse('may have functions of numbers, vectors and plain references only');
    }
  }
}

/** @param {Reader} section */
function checkTables(section) {
  const count = section.unsigned();
  if (count > 1) refuse(`may have one table, not ${count}`);
  if (!count) return;
  if (section.byte() !== 0x70) refuse('may have a table of functions only');
  const { most } = limits(section, 'table');
  if (most > MAX_TABLE) refuse(`may have a table of ${MAX_TABLE} entries at most, not ${most}`);
}

/** @param {Reader} section */
function checkMemories(section) {
  const count = section.unsigned();
  if (count > 1) refuse(`may have one memory, not ${count}`);
  if (!count) return;
  const { least, most } = limits(section, 'memory');
  if (least !== most) refuse(`may have a memory of fixed size only, not of ${least} to ${most} pages`);
}

/**
 * The limits of a plain table or memory, which has to state its largest size.
 * @param {Reader} section
 * @param {string} what
 */
function limits(section, what) {
  const flags = section.byte();
  if (flags & ~7) refuse(`may have a ${what} of the usual kind only, not one with flags ${flags}`);
  if (flags & 4) refuse(`may have a ${what} with 32-bit addresses only, not with 64`);
  if (flags & 2) refuse(`may not share its ${what}`);
  if (!flags) refuse(`has to state the largest size of its ${what}`);
  return { least: section.unsigned(), most: section.unsigned() };
}

/**
 * Throws if what a module hands over cannot be bounded, or depends on the processor.
 * @param {Manifest} manifest
 * @param {LoadOptions} options
 * @param {number} [devices]
 */
export function checkManifest(manifest, { memoryLimit = Infinity, physical }, devices = 1) {
  if (manifest.target !== 'simd128' || manifest.features.includes('relaxed-simd')) {
    throw new UnsupportedError(
      `'${manifest.name}' is compiled for relaxed SIMD, whose results depend on the processor: load the simd128 ` +
        `build, or without untrusted: true`,
    );
  }
  const bound = (/** @type {string} */ what, /** @type {number} */ bytes) => {
    if (devices * bytes > memoryLimit)
      throw new LimitError(
        `'${manifest.name}': ${what} takes ${devices * bytes} bytes together, the limit is ${memoryLimit}: load it with a higher memoryLimit`,
      );
  };
  // Many arrays may lie in the same memory, but each is copied.
  bound(
    'all that a run gives',
    sum(
      manifest.results
        .filter((leaf) => leaf.kind === 'output')
        .map((leaf) => larger(leaf.bytes, physical && leaf.raw.physical_bytes)),
    ),
  );
  manifest.requests.forEach((request, i) => bound(`what request ${i} hands over`, sent(request)));
}

const sum = (/** @type {number[]} */ numbers) => numbers.reduce((all, one) => all + one, 0);

/** The larger of two sizes that a manifest states, whether or not they make sense. @param {any[]} sizes */
const larger = (...sizes) => Math.max(...sizes.map((size) => Number(size) || 0));

/**
 * The bytes that a request copies; of one that is damaged, whatever: what serves requests checks them.
 * @param {any} request
 */
function sent(request) {
  const list = (/** @type {string} */ key) =>
    Array.isArray(request?.[key])
      ? request[key].map((/** @type {any} */ item) => larger(item?.bytes, item?.physical_bytes))
      : [];
  return sum(list('operands')) + sum(list('sends')) * (request?.to?.count || 1);
}
