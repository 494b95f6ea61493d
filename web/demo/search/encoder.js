// all-MiniLM-L6-v2 in this thread: fetches the compiled encoder, its weights and its vocabulary, and turns text into
// vectors.

import { load } from '../../xla_wasm.js';
import { builds } from '../shared.js';
import { Tokenizer } from './tokenizer.js';

/** @typedef {(loaded: number, total: number) => void} OnProgress bytes so far, and of the whole */

/** @param {URL} url */
async function getText(url) {
  const response = await fetch(url).catch((error) => {
    throw new Error(`${url} cannot be fetched: ${error.message}`, { cause: error });
  });
  // The server of this project says in plain text what is missing.
  const plain = response.headers.get('Content-Type')?.startsWith('text/plain');
  const text = await response.text();
  if (!response.ok) throw new Error(plain ? text : `${url} answers HTTP ${response.status}`);
  return text;
}

/** The encoder, loaded. */
export class Encoder {
  #exe;
  #tokenizer;
  #limit;

  /**
   * @param {import('../../xla_wasm.js').Executable} exe
   * @param {Tokenizer} tokenizer
   */
  constructor(exe, tokenizer) {
    this.#exe = exe;
    this.#tokenizer = tokenizer;
    this.#limit = exe.parameters[0].dimensions[0];
  }

  /**
   * Loads the files that lie in the folder `base`.
   * @param {string | URL} base
   * @param {OnProgress} [onProgress] of the weights, which are nearly all of it
   */
  static async load(base, onProgress = () => {}) {
    const at = (/** @type {string} */ name) => new URL(name, base);
    const loading = load(builds('minilm', base), {
      weights: at('minilm.weights'),
      cache: true,
      onProgress: ({ phase, loaded, total }) => phase === 'weights' && onProgress(loaded, total),
    });
    // Where all files are missing, the answer to this request says why.
    loading.catch(() => {});
    const vocabulary = await getText(at('minilm.vocab.txt'));
    return new Encoder(await loading, new Tokenizer(vocabulary));
  }

  /** What the module says of itself. */
  get manifest() {
    return this.#exe.manifest;
  }

  /** What tells its weights: the beginnings of their hashes. */
  get weights() {
    const sidecar = this.#exe.manifest.inits.filter(({ kind }) => kind === 'sidecar');
    return sidecar.map(({ sha256 }) => sha256.slice(0, 8)).join('');
  }

  /**
   * The vector of a text, of length one, and how many tokens the text has; it ends after 128.
   * @param {string} text
   */
  embed(text) {
    const numbers = this.#tokenizer.encode(text, this.#limit);
    const ids = new Int32Array(this.#limit);
    ids.set(numbers);
    const [vector] = this.#exe.run(ids, numbers.length);
    return { vector: /** @type {Float32Array} */ (vector), tokens: numbers.length };
  }
}
