// Files of this machine, in Node, Deno and Bun: the loader takes this in where a source is a path.

import { ArtifactError } from './errors.js';
import { builtin } from './source.js';

/**
 * The bytes of a file, as they come.
 * @param {string} location its path or file: URL
 * @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>}
 */
export async function* read(location) {
  try {
    const file = await builtin('node:fs').promises.open(location.startsWith('file:') ? new URL(location) : location);
    yield* file.createReadStream({ highWaterMark: 1 << 20 });
  } catch (error) {
    throw new ArtifactError(`cannot read ${location}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
}
