// Files that only some modules or options need. They come by `import()`, or, where there is none, as in service workers
// and worklets, with standalone.js.

import { UnsupportedError } from './errors.js';

/** Those that are here already. @type {Record<string, any>} */
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
