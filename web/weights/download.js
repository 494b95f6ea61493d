// A file from an address as it comes. What breaks on the way is asked for again, and goes on where it broke if the
// server can do that; whoever reads it notices nothing but the time that it takes.

import { ArtifactError } from '../errors.js';
import { chunks } from '../bytes.js';
import { respond } from '../source.js';

const TRIES = 3; // requests for one file, all in all
// Milliseconds before the second one; before each further one, three times as long as before the one before it.
const FIRST_PAUSE = 250;

/** The file cannot go on where it broke, but may be read from its beginning. */
export class Broken extends ArtifactError {}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
const pause = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve(undefined);
    }, milliseconds);
    signal?.addEventListener('abort', stop);
  });

/**
 * Returns true for an error that may go away by itself: no answer, one that says so, or a connection that broke.
 * @param {any} error
 */
const mayPass = (error) => error instanceof ArtifactError && !(Number(error.cause) < 500);

/** Returns a text that tells one version of a file from another. @param {Response} response */
const version = ({ headers }) => `${headers.get('ETag')} ${headers.get('Last-Modified')}`;
const UNKNOWN = 'null null';

/** The requests for one file. */
export class Download {
  #signal;
  #tries = 0;
  /** @type {Promise<Response> | undefined} */
  #begun;

  /**
   * @param {string} location
   * @param {AbortSignal} [signal]
   */
  constructor(location, signal) {
    /** @readonly */
    this.location = location;
    this.#signal = signal;
  }

  /** Makes the first request, before anybody opens it. */
  begin() {
    this.#begun = this.#ask('default');
    this.#begun.catch(() => {});
  }

  /** Nobody will open it. */
  drop() {
    this.#begun?.then((response) => response.body?.cancel()).catch(() => {});
  }

  /**
   * Waits until it is time for another request, if there may be one.
   * @param {unknown} error why it is needed
   */
  async again(error) {
    this.#signal?.throwIfAborted();
    if (this.#tries >= TRIES || !mayPass(error)) throw error;
    await pause(FIRST_PAUSE * 3 ** (this.#tries - 1), this.#signal);
  }

  /**
   * @param {RequestCache} cache
   * @param {Record<string, string>} [headers]
   */
  async #ask(cache, headers) {
    for (;;) {
      this.#tries++;
      try {
        return await respond(this.location, { signal: this.#signal, cache, headers });
      } catch (error) {
        await this.again(error);
      }
    }
  }

  /**
   * A response, and its bytes.
   * @param {RequestCache} cache
   * @param {boolean} isHashed whether the reader notices when parts of two versions are put together
   */
  async open(cache, isHashed) {
    const begun = cache === 'default' && this.#begun;
    this.#begun = undefined;
    const response = await (begun || this.#ask(cache));
    return { headers: response.headers, stream: this.#stream(response, isHashed) };
  }

  /**
   * @param {Response} response
   * @param {boolean} isHashed
   * @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>}
   */
  async *#stream(response, isHashed) {
    const first = response;
    // A browser takes compression away, and with it the meaning of positions.
    const isPlain = !first.headers.get('Content-Encoding') && (isHashed || version(first) !== UNKNOWN);
    let position = 0;
    for (;;) {
      try {
        for await (const chunk of chunks(response, this.#signal)) {
          position += chunk.length;
          yield chunk;
        }
        return;
      } catch (error) {
        await this.again(error);
        const broken = () => new Broken(/** @type {Error} */ (error).message, { cause: error });
        if (!position || !isPlain) throw broken();
        // Not from a cache, which may have another version of it.
        response = await this.#ask('no-store', { Range: `bytes=${position}-` }).catch((refusal) => {
          throw refusal.cause === 416 ? broken() : refusal; // the server's file is shorter by now
        });
        const goesOn =
          response.status === 206 &&
          response.headers.get('Content-Range')?.startsWith(`bytes ${position}-`) &&
          version(response) === version(first);
        if (!goesOn) {
          await response.body?.cancel().catch(() => {});
          throw broken();
        }
      }
    }
  }
}
