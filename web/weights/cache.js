// Files kept in the browser's Cache API between visits, under a key that stands for their content.

const NAME = 'xla-wasm';

/** A file in the cache, or its place there. */
export class CacheEntry {
  #cache;
  #key;
  #hasAll = false;

  /**
   * @param {Cache} cache
   * @param {string} key
   */
  constructor(cache, key) {
    this.#cache = cache;
    this.#key = key;
  }

  /**
   * Nothing where there is no cache: outside of browsers, in pages that are not secure, and where the user forbids it.
   * @param {string} key
   */
  static async open(key) {
    try {
      return new CacheEntry(await caches.open(NAME), `https://${NAME}/${encodeURIComponent(key)}`);
    } catch {
      return undefined;
    }
  }

  find() {
    return this.#cache.match(this.#key);
  }

  /** Says that the file being kept has come as far as somebody needs it: it may end there. */
  hasAll() {
    this.#hasAll = true;
  }

  drop() {
    return this.#cache.delete(this.#key);
  }

  /**
   * Passes chunks on and keeps them, if they are read to their end or as far as they are needed.
   * @param {AsyncIterable<Uint8Array<ArrayBuffer>>} chunks
   * @param {HeadersInit} [headers]
   */
  async *keep(chunks, headers) {
    const { readable, writable } = new TransformStream();
    const stored = this.#cache.put(this.#key, new Response(readable, { headers }));
    const writer = writable.getWriter();
    let failed = false;
    const attempt = (/** @type {Promise<void>} */ work) =>
      work.catch((error) => {
        if (!failed) console.warn(`xla-wasm: the weights could not be kept for the next visit: ${error}`);
        failed = true;
      });
    this.#hasAll = false;
    let whole = false;
    try {
      for await (const chunk of chunks) {
        // Before the reader has it, who may want no more.
        if (!failed) await attempt(writer.write(chunk));
        yield chunk;
      }
      whole = true;
    } finally {
      if (whole || this.#hasAll) {
        if (!failed) await attempt(writer.close());
        await attempt(stored);
      } else {
        failed = true;
        void attempt(stored);
        await writer.abort().catch(() => {});
      }
    }
  }
}
