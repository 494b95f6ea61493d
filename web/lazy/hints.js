// What it probably means that there is nothing to load, or that an engine refuses it: `load` takes this in when that happens.

import { ArgumentError, ArtifactError, LimitError, UnsupportedError } from '../errors.js';
import { supports } from '../features.js';

/** The features this engine lacks. */
const missing = () => ['simd128', 'relaxed-simd'].filter((feature) => !supports(feature));

/**
 * The error of builds among which there is none to load.
 * @param {import('../source.js').Builds} builds
 */
export function noBuild(builds) {
  if (builds['relaxed-simd']) return new UnsupportedError(`there is no build for this engine: it lacks ${missing().join(' and ')}`);
  return new ArgumentError("builds are {simd128: ..., 'relaxed-simd': ...}");
}

/**
 * The error of what is no source at all.
 * @param {unknown} given
 */
export const noSource = (given) =>
  new ArgumentError(`cannot load from ${given === null ? 'null' : typeof given}: pass a URL, a path, a Response, bytes or a WebAssembly.Module`);

/**
 * The error of an option that `load` does not have.
 * @param {string} name
 * @param {string[]} known
 */
export const noOption = (name, known) => new ArgumentError(`load has no option '${name}' (known: ${known.join(', ')})`);

/** The error of an engine that runs no module at all. */
export function noEngine() {
  if (typeof WebAssembly !== 'object') return new UnsupportedError('this engine has no WebAssembly, or it is switched off (as in Lockdown Mode)');
  return new UnsupportedError('this engine has no WebAssembly SIMD; browsers have it since 2021 (Safari 16.4)');
}

/** @param {number} bytes */
const size = (bytes) => `${bytes} bytes${bytes < 1e6 ? '' : ` (${(bytes / 2 ** 20).toFixed(1)} MiB)`}`;

/**
 * The error of a module that could not be instantiated.
 * @param {unknown} cause
 * @param {import('../manifest.js').Manifest} manifest
 */
export function notStarted(cause, { name, memoryBytes }) {
  const why = /** @type {Error} */ (cause).message;
  if (cause instanceof WebAssembly.RuntimeError) return new ArtifactError(`the module traps when it starts: ${why}`, { cause });
  return new LimitError(`there is no room for the ${size(memoryBytes)} of memory that '${name}' needs in one piece: ${why}`, { cause });
}

/**
 * The error with what to do about it.
 * @param {ArtifactError} error
 * @param {string} where the module comes from
 * @param {Uint8Array} [bytes] of the module, if they are known
 */
export function hinted({ message, cause }, where, bytes) {
  if (bytes && String(bytes.subarray(0, 4)) !== '0,97,115,109') {
    const isPage = /^\s*</.test(new TextDecoder().decode(bytes.subarray(0, 64)));
    const why = isPage ? 'it is an HTML page, so the address is probably wrong' : bytes.length ? "it does not begin with the bytes '\\0asm'" : 'it is empty';
    return new ArtifactError(`${where || 'this'} is not a WebAssembly module: ${why}`, { cause });
  }
  const why = /** @type {Error} */ (cause).message;
  if (/unsafe-eval|Content.Security|CSP/i.test(why)) {
    return new UnsupportedError(`the page's Content-Security-Policy forbids WebAssembly: add 'wasm-unsafe-eval' to its script-src (${why})`, { cause });
  }
  const lacking = missing();
  let hint = '';
  if (/magic/.test(why)) hint = ': it is not a WebAssembly module, perhaps an HTML page, so the address is probably wrong';
  else if (/network|fetch|abort|terminated/i.test(why)) hint = ': the connection broke';
  else if (/past (the )?end|fell off|unexpected end|expected \d+ (more )?bytes?|out of bounds|truncated/i.test(why)) hint = ': the file is probably cut short';
  // An engine refuses instructions of a feature it lacks before anybody can read the manifest.
  else if (lacking.length) hint = ` (this engine lacks ${lacking.join(' and ')}: if the module was compiled for it, load the simd128 build)`;
  return new ArtifactError(message + hint, { cause });
}
