// Weights in several files, as hosts that limit the size of one want them: one response, of which each part is fetched
// when its turn comes.

import { ArgumentError, ArtifactError } from './errors.js';

/**
 * Where files come from, such as `env.ASSETS` of a Worker.
 * @typedef {object} Assets
 * @property {(url: string) => Promise<Response>} fetch gives the file at an address
 */

/** A binding to assets looks at the path of an address only. */
const NOWHERE = 'https://assets.invalid/';
const PIECE = 1 << 16;

/**
 * Files that make up one, as a response.
 * @param {string[]} names in their order
 * @param {Assets} [assets]
 * @param {string | URL} [base] what the names are relative to, for `assets` that fetch from anywhere
 */
export async function joined(names, assets, base = NOWHERE) {
  if (typeof assets?.fetch !== 'function') {
    throw new ArgumentError(
      `the weights are in ${names.join(', ')}: load({assets: env.ASSETS}), where ASSETS is the binding to the ` +
        `folder of these files`,
    );
  }
  const open = async (/** @type {string} */ name) => {
    const response = await assets.fetch(String(new URL(name, base)));
    if (!response.ok)
      throw new ArtifactError(
        `cannot fetch ${name} from the assets: HTTP ${response.status}; it lies in assets/ beside the model`,
      );
    return pieces(response.body);
  };
  const waiting = names.slice(1);
  // The first is opened at once, so that a wrong folder is an error of this call.
  let part = await open(names[0]);
  /** @type {UnderlyingDefaultSource<Uint8Array<ArrayBuffer>>} */
  const source = {
    async pull(controller) {
      for (;;) {
        const piece = await part.next();
        if (piece) return controller.enqueue(piece);
        const name = waiting.shift();
        if (name === undefined) return controller.close();
        part = await open(name);
      }
    },
    cancel: () => part.cancel(),
  };
  // Nothing is read ahead: a piece is done with when the next is asked for.
  return new Response(new ReadableStream(source, { highWaterMark: 0 }));
}

/**
 * Reads a body piece by piece, where streams can do that always into the same memory: what is left for the garbage
 * collector would count towards the little that a worker may have.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>> | null} body
 */
function pieces(body) {
  /** @type {any} */
  let reader;
  let into = true;
  try {
    reader = body?.getReader({ mode: 'byob' });
  } catch {
    into = false;
    reader = body?.getReader();
  }
  let buffer = new ArrayBuffer(into ? PIECE : 0);
  return {
    /** @returns {Promise<Uint8Array<ArrayBuffer> | undefined>} */
    async next() {
      const { done, value } = (await reader?.read(into ? new Uint8Array(buffer) : undefined)) ?? { done: true };
      if (done) return undefined;
      if (into) buffer = value.buffer;
      return value;
    },
    async cancel() {
      await reader?.cancel();
    },
  };
}
