// What it probably means that an engine refuses a module: `load` takes this in when that happens.

import { ArtifactError, UnsupportedError } from '../errors.js';
import { missing } from '../features.js';

/**
 * The error with what to do about it.
 * @param {ArtifactError} error
 */
export function hinted({ message, cause }) {
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
