// Gets bytes and compiled modules from wherever they are: URLs, files under Node, responses, buffers.

import { ArtifactError } from './errors.js';
import { supports } from './features.js';

/** @typedef {string | URL | Response | Promise<Response> | ArrayBuffer | ArrayBufferView<ArrayBuffer>} Bytes */
/** @typedef {Bytes | WebAssembly.Module} Source */
/** @typedef {{simd128?: Source, 'relaxed-simd'?: Source}} Builds builds of one module for several targets */
/** @typedef {{signal?: AbortSignal, cache?: RequestCache, headers?: Record<string, string>}} Manner how to fetch */

// Node, Bun and Deno have this; a bundler for browsers sees no import.
export const builtin = (/** @type {string} */ name) =>
  /** @type {any} */ (globalThis).process?.getBuiltinModule?.(name);
const hasFiles = builtin('node:fs');

/**
 * By tag and not by class: the value may come from a frame or another realm.
 * @param {any} value
 * @param {string} name
 */
const is = (value, name) => value?.[Symbol.toStringTag] === name;

/** @param {any} value */
export const isPlain = (value) =>
  value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype;

/**
 * The best of several builds that this engine can run; a single source is returned as it is.
 * @param {Source | Builds} source
 * @returns {Promise<Source>}
 */
export async function pick(source) {
  if (!isPlain(source)) return /** @type {Source} */ (source);
  const builds = /** @type {Builds} */ (source);
  const best = (supports('relaxed-simd') && builds['relaxed-simd']) || builds.simd128;
  if (best) return best;
  throw (await import('./diagnostics/hints.js')).noBuild(builds);
}

/**
 * The URL or path of a source, if it has one.
 * @param {unknown} source
 */
export const locationOf = (source) => (typeof source === 'string' || source instanceof URL ? String(source) : '');

/** @param {string} location */
export const isLocal = (location) => location && hasFiles && !/^(https?|data|blob):/.test(location);

/**
 * The error with what to do about it, if that can be loaded.
 * @param {'notFetched' | 'notCompiled'} what
 * @param {ArtifactError} error
 * @param {any[]} about
 * @returns {Promise<Error>}
 */
const explain = (what, error, ...about) =>
  import('./diagnostics/hints.js').then(
    (hints) => /** @type {any} */ (hints)[what](error, ...about),
    () => error,
  );

/**
 * The bytes of a source that is in memory already.
 * @param {any} source
 * @returns {Uint8Array<ArrayBuffer> | undefined}
 */
export function inMemory(source) {
  if (ArrayBuffer.isView(source))
    return new Uint8Array(/** @type {ArrayBuffer} */ (source.buffer), source.byteOffset, source.byteLength);
  return is(source, 'ArrayBuffer') ? new Uint8Array(source) : undefined;
}

/**
 * @param {Bytes} source
 * @param {Manner} [manner]
 * @returns {Promise<Response>}
 */
export async function respond(source, manner) {
  const location = locationOf(source);
  let response;
  try {
    response = await (location ? fetch(location, manner) : /** @type {Promise<Response>} */ (source));
  } catch (error) {
    throw await explain(
      'notFetched',
      new ArtifactError(`cannot fetch ${location || 'the response'}: ${/** @type {Error} */ (error).message}`, {
        cause: error,
      }),
    );
  }
  if (!is(response, 'Response') || !response.ok || response.bodyUsed)
    throw (await import('./diagnostics/hints.js')).noSource(response, location);
  return response;
}

/**
 * Compiles while the bytes arrive where that is possible.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compile(source, signal) {
  if (typeof WebAssembly !== 'object' || !supports('simd128'))
    throw (await import('./diagnostics/hints.js')).noEngine();
  if (is(source, 'WebAssembly.Module')) return /** @type {WebAssembly.Module} */ (source);
  let bytes = /** @type {Bytes} */ (source);
  let where = locationOf(source);
  if (!inMemory(source) && !isLocal(where)) {
    const response = await respond(bytes, { signal });
    where = response.url || where;
    // compileStreaming insists on this type; with any other the bytes are compiled when all are there.
    if (response.headers.get('Content-Type') === 'application/wasm' && WebAssembly.compileStreaming) {
      return explained(() => WebAssembly.compileStreaming(response), where);
    }
    bytes = response;
  }
  const whole = inMemory(bytes) ?? (await (await import('./bytes.js')).readBytes(bytes, signal));
  return explained(() => WebAssembly.compile(whole), where, whole);
}

/**
 * @template T
 * @param {() => Promise<T>} work
 * @param {string} where
 * @param {Uint8Array} [bytes] if they are known
 */
async function explained(work, where, bytes) {
  try {
    return await work();
  } catch (error) {
    throw await explain(
      'notCompiled',
      new ArtifactError(`cannot compile ${where || 'the module'}: ${/** @type {Error} */ (error).message}`, {
        cause: error,
      }),
      where,
      bytes,
    );
  }
}
