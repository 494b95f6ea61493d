// What it probably means that there is nothing to load, or that an engine refuses it: `load` takes this in when that
// happens.

import { ArgumentError, ArtifactError, LimitError, UnsupportedError } from '../errors.js';
import { beginning } from '../bytes.js';
import { supports } from '../features.js';
import { ANEW } from '../manifest.js';
import { TOP } from '../manifest_fields.js';

/** The features this engine lacks. */
const missing = () => ['simd128', 'relaxed-simd'].filter((feature) => !supports(feature));

/**
 * The error of builds among which there is none to load.
 * @param {import('../source.js').Builds} builds
 */
export function noBuild(builds) {
  if (builds['relaxed-simd'])
    return new UnsupportedError(`there is no build for this engine: it lacks ${missing().join(' and ')}`);
  return new ArgumentError("builds are {simd128: ..., 'relaxed-simd': ...}");
}

/**
 * The error of what is no source at all, or a response without what was asked for.
 * @param {any} given
 * @param {string} location
 */
export function noSource(given, location) {
  if (given?.ok === undefined)
    return new ArgumentError(
      `cannot load from ${given === null ? 'null' : typeof given}: pass a URL, a path, a Response, bytes or a ` +
        `WebAssembly.Module`,
    );
  const url = given.url || location;
  if (given.ok) return new ArgumentError(`the response of ${url} has been read before: pass a new one, or its clone()`);
  return new ArtifactError(`cannot fetch ${url}: HTTP ${given.status} ${given.statusText}`.trim(), {
    cause: given.status,
  });
}

/**
 * The error of options that `load` does not have.
 * @param {unknown} options
 * @param {string[]} known
 */
export function noOption(options, known) {
  const name = options && Object.keys(options).find((name) => !known.includes(name));
  if (typeof options !== 'object' || !name)
    return new ArgumentError(`the options of load are an object, such as {weights: ...}; got ${typeof options}`);
  return new ArgumentError(`load has no option '${name}' (known: ${known.join(', ')})`);
}

/** The error of an engine that runs no module at all. */
export function noEngine() {
  if (typeof WebAssembly !== 'object')
    return new UnsupportedError('this engine has no WebAssembly, or it is switched off (as in Lockdown Mode)');
  return new UnsupportedError('this engine has no WebAssembly SIMD; browsers have it since 2021 (Safari 16.4)');
}

/**
 * The error of a module without a manifest that this host can read.
 * @param {unknown} cause
 * @param {ArrayBuffer | undefined} section
 * @param {any} raw what the section holds; undefined if that is no JSON
 */
export function noManifest(cause, section, raw) {
  if (!section)
    return new ArtifactError(
      "this WebAssembly module has no custom section 'xla_wasm': it was not made by xla_wasm, or was stripped",
    );
  if (raw === undefined)
    return new ArtifactError("the manifest in section 'xla_wasm' is not valid JSON" + ANEW, { cause });
  if (raw?.kind)
    return new ArtifactError(
      `'${raw.name}' is compiled as a ${raw.kind}, which runs by itself; compile it without --kind for a host`,
    );
  if (raw?.format > TOP.format.high)
    return new ArtifactError(
      `the artifact's manifest is wrong at format: this xla_wasm reads formats ${TOP.format.low} to ` +
        `${TOP.format.high}, the artifact has ${raw.format}: compile it again or use the matching version`,
    );
  return cause;
}

/**
 * The error of a module that has other imports and exports than a compiled one.
 * @param {WebAssembly.Module} module
 * @param {string} [lacks] what it does not export
 */
export function otherModule(module, lacks) {
  const imports = WebAssembly.Module.imports(module).map((item) => `${item.module}.${item.name}`);
  return new ArtifactError(
    (imports.length
      ? `the module must import nothing, but imports ${imports.slice(0, 5).join(', ')}`
      : `the module exports no ${lacks === 'memory' ? lacks : 'function'} '${lacks}'`) + ANEW,
  );
}

/**
 * The error of a memory that is not what the manifest states.
 * @param {import('../manifest.js').Manifest} manifest
 * @param {WebAssembly.Memory} memory
 * @param {ArrayBuffer} buffer that the memory had, if it is another by now
 */
export function otherMemory({ name, memoryBytes }, memory, buffer) {
  const other = memory.buffer === buffer && buffer.byteLength !== memoryBytes;
  return new ArtifactError(
    (other
      ? `the manifest states ${memoryBytes} bytes of memory, the module has ${buffer.byteLength}`
      : `the memory of '${name}' may grow beyond the ${memoryBytes} bytes that the manifest states`) + ANEW,
  );
}

/**
 * The error of more memory than the option `memoryLimit` allows.
 * @param {number} needed
 * @param {number} limit
 */
export const tooLarge = (needed, limit) =>
  new LimitError(
    `the module needs ${needed} bytes of memory, the limit is ${limit}: load it with a higher memoryLimit`,
  );

/** The error of a module that this engine could not run. @param {string[]} features that it lacks */
export const featureless = (features) =>
  new UnsupportedError(`this engine lacks the WebAssembly feature ${features.join(' and ')} that the module needs`);

/** @param {number} bytes */
const size = (bytes) => `${bytes} bytes${bytes < 1e6 ? '' : ` (${(bytes / 2 ** 20).toFixed(1)} MiB)`}`;

/**
 * The error of a module that could not be instantiated.
 * @param {unknown} cause
 * @param {import('../manifest.js').Manifest} manifest
 */
export function notStarted(cause, { name, memoryBytes }) {
  const why = /** @type {Error} */ (cause).message;
  if (cause instanceof WebAssembly.RuntimeError)
    return new ArtifactError(`the module traps when it starts: ${why}${ANEW}`, { cause });
  return new LimitError(
    `there is no room for the ${size(memoryBytes)} of memory that '${name}' needs in one piece: ${why}; dispose of executables ` +
      `that you no longer need`,
    { cause },
  );
}

/**
 * The error of a request that failed. What a browser says then is hardly more than that.
 * @param {ArtifactError} error
 */
export function notFetched({ message, cause }) {
  const hint = /** @type {any} */ (globalThis).location
    ? ' (no network, no such server, no CORS headers or forbidden by a Content-Security-Policy)'
    : '';
  return new ArtifactError(message + hint, { cause });
}

/**
 * The error of a module that does not compile, with what to do about it.
 * @param {ArtifactError} error
 * @param {string} where the module comes from
 * @param {Uint8Array} [bytes] of the module, if they are known
 */
export function notCompiled({ message, cause }, where, bytes) {
  if (bytes && String(bytes.subarray(0, 4)) !== '0,97,115,109') {
    const isPage = /^\s*</.test(beginning(bytes));
    const why = isPage
      ? 'it is an HTML page, so the address is probably wrong'
      : bytes.length
        ? "it does not begin with the bytes '\\0asm'"
        : 'it is empty';
    return new ArtifactError(`${where || 'this'} is not a WebAssembly module: ${why}`, { cause });
  }
  const why = /** @type {Error} */ (cause).message;
  if (/unsafe-eval|Content.Security|CSP/i.test(why)) {
    const place = /^\w+-extension:/.test(globalThis.location?.protocol)
      ? 'its script-src in content_security_policy.extension_pages in manifest.json'
      : 'its script-src';
    return new UnsupportedError(
      `the page's Content-Security-Policy forbids WebAssembly: add 'wasm-unsafe-eval' to ${place} (${why})`,
      { cause },
    );
  }
  const lacking = missing();
  let hint = '';
  if (/magic|doesn't start with/.test(why))
    hint = ': it is not a WebAssembly module, perhaps an HTML page, so the address is probably wrong';
  else if (/network|fetch|abort|terminated|load failed/i.test(why)) hint = ': the connection broke';
  else if (
    /past (the )?end|fell off|unexpected end|expected \d+ (more )?bytes?|out of bounds|truncated|body length too big|remaining size/i.test(
      why,
    )
  )
    hint = ': the file is probably cut short';
  // An engine refuses instructions of a feature it lacks before anybody can read the manifest.
  else if (lacking.length)
    hint = ` (this engine lacks ${lacking.join(' and ')}: if the module was compiled for it, load the simd128 build)`;
  return new ArtifactError(message + hint, { cause });
}
