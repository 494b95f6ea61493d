// Gets bytes and compiled modules from wherever they are: URLs, files under Node, responses, buffers.

import { ArtifactError, UnsupportedError } from './errors.js';
import { missing, supports } from './features.js';

/** @typedef {string | URL | Response | Promise<Response> | ArrayBuffer | ArrayBufferView<ArrayBuffer>} Bytes */
/** @typedef {Bytes | WebAssembly.Module} Source */
/** @typedef {{simd128?: Source, 'relaxed-simd'?: Source}} Builds builds of one module for several targets */

// Node, Bun and Deno have this; a bundler for browsers sees no import.
const files = /** @type {any} */ (globalThis).process?.getBuiltinModule?.('node:fs')?.promises;

/**
 * The best of several builds that this engine can run; a single source is returned as it is.
 * @param {Source | Builds} source
 * @returns {Source}
 */
export function pick(source) {
  if (Object.getPrototypeOf(source) !== Object.prototype) return /** @type {Source} */ (source);
  const builds = /** @type {Builds} */ (source);
  if (builds['relaxed-simd'] && supports('relaxed-simd')) return builds['relaxed-simd'];
  if (builds.simd128) return builds.simd128;
  throw new UnsupportedError(`there is no build for this engine: it lacks ${missing().join(' and ')}`);
}

/**
 * The URL or path of a source, if it has one.
 * @param {Source} source
 */
export const locationOf = (source) => (typeof source === 'string' || source instanceof URL ? String(source) : '');

/** @param {string} location */
const isLocal = (location) => files && !/^(https?|data|blob):/.test(location);

/**
 * @param {Bytes} source
 * @returns {Promise<Response>}
 */
async function respond(source) {
  const location = locationOf(/** @type {Source} */ (source));
  let response;
  try {
    response = await (location ? fetch(location) : /** @type {Promise<Response>} */ (source));
  } catch (error) {
    throw new ArtifactError(`cannot fetch ${location || 'the response'}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
  if (!response.ok) throw new ArtifactError(`cannot fetch ${response.url || location}: HTTP ${response.status} ${response.statusText}`);
  return response;
}

/** @param {string} location */
async function readLocal(location) {
  try {
    return await files.readFile(location.startsWith('file:') ? new URL(location) : location);
  } catch (error) {
    throw new ArtifactError(`cannot read ${location}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
}

/**
 * @param {Bytes} source
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function readBytes(source) {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const location = locationOf(/** @type {Source} */ (source));
  if (location && isLocal(location)) return readLocal(location);
  // By tag, since the buffer may come from another realm.
  const isBuffer = /** @type {any} */ (source)?.[Symbol.toStringTag] === 'ArrayBuffer';
  return new Uint8Array(isBuffer ? /** @type {ArrayBuffer} */ (source) : await (await respond(source)).arrayBuffer());
}

/**
 * Compiles while the bytes arrive where that is possible.
 * @param {Source} source
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compile(source) {
  if (!supports('simd128')) throw new UnsupportedError('this engine has no WebAssembly SIMD; browsers have it since 2021 (Safari 16.4)');
  if (/** @type {any} */ (source)?.[Symbol.toStringTag] === 'WebAssembly.Module') return /** @type {WebAssembly.Module} */ (source);
  let where = locationOf(source);
  let bytes;
  if (ArrayBuffer.isView(source) || /** @type {any} */ (source)?.[Symbol.toStringTag] === 'ArrayBuffer' || (where && isLocal(where))) {
    bytes = await readBytes(/** @type {Bytes} */ (source));
  } else {
    const response = await respond(/** @type {Bytes} */ (source));
    where = response.url || where;
    // compileStreaming insists on this type; with any other the bytes are compiled when all are there.
    if (response.headers.get('Content-Type') === 'application/wasm' && typeof WebAssembly.compileStreaming === 'function') {
      return explained(() => WebAssembly.compileStreaming(response), where);
    }
    bytes = new Uint8Array(await response.arrayBuffer());
  }
  if (bytes[0] !== 0 || bytes[1] !== 0x61 || bytes[2] !== 0x73 || bytes[3] !== 0x6d) {
    const page = /^\s*</.test(new TextDecoder().decode(bytes.subarray(0, 64)));
    const hint = page ? 'it is an HTML page, so the address is probably wrong' : "it does not begin with the bytes '\\0asm'";
    throw new ArtifactError(`${where || 'this'} is not a WebAssembly module: ${hint}`);
  }
  const whole = bytes;
  return explained(() => WebAssembly.compile(whole), where);
}

/**
 * @template T
 * @param {() => Promise<T>} work
 * @param {string} where
 */
async function explained(work, where) {
  try {
    return await work();
  } catch (error) {
    const why = /** @type {Error} */ (error).message;
    const lacking = missing();
    // An engine refuses instructions of a feature it lacks before anybody can read the manifest.
    const hint = lacking.length ? ` (this engine lacks ${lacking.join(' and ')}: if the module was compiled for it, load the simd128 build)` : '';
    throw new ArtifactError(`cannot compile ${where || 'the module'}: ${why}${hint}`, { cause: error });
  }
}
