// The bytes of a source, as they come: the loader takes this in for weights, and for modules that no engine compiles
// while they arrive, as files of this machine in Node, Deno and Bun.

import { ArtifactError } from './errors.js';
import { builtin, inMemory, isLocal, locationOf, respond } from './source.js';

/** @typedef {import('./source.js').Bytes} Bytes */

/**
 * The bytes of a source, as they come.
 * @param {Bytes} source
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>}
 */
export async function* chunks(source, signal) {
  const bytes = inMemory(source);
  const location = locationOf(source);
  if (bytes) {
    yield bytes;
  } else if (isLocal(location)) {
    yield* readFile(location);
  } else {
    const response = await respond(source, { signal });
    if (!response.body) return;
    const reader = response.body.getReader();
    // A response that the caller fetched knows nothing of the signal.
    const stop = () => void reader.cancel().catch(() => {});
    signal?.addEventListener('abort', stop);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        yield value;
      }
    } catch (error) {
      throw new ArtifactError(
        `the connection broke while ${response.url || 'the response'} came: ${/** @type {Error} */ (error).message}`,
        { cause: error },
      );
    } finally {
      signal?.removeEventListener('abort', stop);
      stop();
    }
  }
}

/**
 * @param {Bytes} source
 * @param {AbortSignal} [signal]
 * @param {number} [most] bytes, of which no more are read than it takes to see that there are more
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function readBytes(source, signal, most = Infinity) {
  const bytes = inMemory(source);
  if (bytes) return bytes;
  const parts = [];
  for await (const part of chunks(source, signal)) {
    parts.push(part);
    if ((most -= part.length) < 0) break;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/**
 * The bytes of a file, as they come.
 * @param {string} location its path or file: URL
 * @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>}
 */
async function* readFile(location) {
  try {
    const file = await builtin('node:fs').promises.open(location.startsWith('file:') ? new URL(location) : location);
    yield* file.createReadStream({ highWaterMark: 1 << 20 });
  } catch (error) {
    throw new ArtifactError(`cannot read ${location}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
}

/**
 * How bytes begin, as the text of a page that stands where others were expected does.
 * @param {Uint8Array} bytes
 */
export const beginning = (bytes) => String.fromCharCode(...bytes.subarray(0, 64)).replace(/^\xef\xbb\xbf/, '');
