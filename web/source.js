// Gets bytes and compiled modules from wherever they are: URLs, files under Node, responses, buffers. And files of the
// loader that only some modules or options need.

import { ArtifactError, UnsupportedError } from './errors.js';
import { supports } from './features.js';

/** @typedef {string | URL | Response | Promise<Response> | ArrayBuffer | ArrayBufferView<ArrayBuffer>} Bytes */
/** @typedef {Bytes | WebAssembly.Module} Source */
/** @typedef {{simd128?: Source, 'relaxed-simd'?: Source}} Builds builds of one module for several targets */
/** @typedef {{signal?: AbortSignal, cache?: RequestCache, headers?: Record<string, string>}} Manner how to fetch */

/**
 * Files of the loader that are here already. Others come by `import()`, which service workers and worklets do not have:
 * standalone.js puts all of them here.
 * @type {Record<string, any>}
 */
export const FILES = {};

/**
 * @template T
 * @param {string} name of the file
 * @param {() => Promise<T>} load imports it
 * @returns {Promise<T>}
 */
export async function file(name, load) {
  try {
    return FILES[name] ?? (await load());
  } catch (cause) {
    throw new UnsupportedError(
      `cannot import ${name}.js (${/** @type {Error} */ (cause).message}): service workers and worklets need standalone.js`,
      { cause },
    );
  }
}

export const hints = () => file('hints', () => import('./diagnostics/hints.js'));

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

/**
 * The text of bytes that are UTF-8; throws if they are not.
 * @param {ArrayBuffer | Uint8Array} bytes
 * @returns {string}
 */
export const decode = (bytes) => new (FILES.TextDecoder ?? TextDecoder)('utf-8', { fatal: true }).decode(bytes);

/** Worklets have no `performance`. */
export const clock = globalThis.performance ?? Date;

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
  throw (await hints()).noBuild(builds);
}

/**
 * The URL or path of a source, if it has one.
 * @param {unknown} source
 */
export const locationOf = (source) => (typeof source === 'string' || is(source, 'URL') ? String(source) : '');

/** @param {string} location */
export const isLocal = (location) => location && hasFiles && !/^(https?|data|blob):/.test(location);

/**
 * An error with what to do about it, if that can be loaded.
 * @param {'notFetched' | 'notCompiled'} what
 * @param {string} task
 * @param {any} cause
 * @param {any[]} about
 * @returns {Promise<Error>}
 */
function explain(what, task, cause, ...about) {
  const error = new ArtifactError(`cannot ${task}: ${cause.message}`, { cause });
  return hints().then(
    (hints) => /** @type {any} */ (hints)[what](error, ...about),
    () => error,
  );
}

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
    throw await explain('notFetched', `fetch ${location || 'the response'}`, error);
  }
  if (!is(response, 'Response') || !response.ok || response.bodyUsed)
    throw (await hints()).noSource(response, location);
  return response;
}

/**
 * Compiles while the bytes arrive where that is possible.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compile(source, signal) {
  if (!globalThis.WebAssembly || !supports('simd128')) throw (await hints()).noEngine();
  if (is(source, 'WebAssembly.Module')) return /** @type {WebAssembly.Module} */ (source);
  let bytes = /** @type {Bytes} */ (source);
  let where = locationOf(source);
  let streams;
  if (!inMemory(source) && !isLocal(where)) {
    const response = await respond(bytes, { signal });
    where = response.url || where;
    bytes = response;
    // It insists on this type; with any other the bytes are compiled when all are there.
    streams = response.headers.get('Content-Type') === 'application/wasm' && WebAssembly.compileStreaming;
  }
  const whole =
    !streams && (inMemory(bytes) ?? (await (await file('bytes', () => import('./bytes.js'))).readBytes(bytes, signal)));
  try {
    return await (whole ? WebAssembly.compile(whole) : WebAssembly.compileStreaming(/** @type {Response} */ (bytes)));
  } catch (error) {
    throw await explain('notCompiled', `compile ${where || 'the module'}`, error, where, whole);
  }
}
