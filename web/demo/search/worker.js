// The model at work, away from the page: it embeds sentences one after another, and answers a query as soon as one comes.

import { breathe, fetchedBytes } from '../shared.js';
import { Encoder } from './encoder.js';

const SHOWN = 12;
const REPORT = 100; // milliseconds between two reports

const page = /** @type {any} */ (self);

/** @type {{id: number, text: string} | null} the last query that has no answer yet */
let query = null;
/** @type {{id: number, vector: Float32Array, tokens: number, embedding: number} | null} the query that the answer shown is of */
let asked = null;
/** @type {string[]} */
let sentences = [];
let done = 0;
let spent = 0;
/** @type {Map<string, Float32Array>} a person may come back to sentences */
const vectors = new Map();
/** @type {() => void} */
let wake = () => {};

page.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.sentences) {
    sentences = data.sentences;
    done = spent = 0;
    asked = null;
  }
  if (data.query) query = data.query;
  wake();
};

/** Ranks the sentences that are embedded by how near they are to the query. */
function answer() {
  if (!asked) return;
  const { id, vector, tokens, embedding } = asked;
  const begin = performance.now();
  const scores = sentences.slice(0, done).map((sentence, index) => ({ index, score: dot(vector, /** @type {Float32Array} */ (vectors.get(sentence))) }));
  scores.sort((a, b) => b.score - a.score);
  page.postMessage({ kind: 'answer', id, tokens, embedding, ranking: performance.now() - begin, best: scores.slice(0, SHOWN) });
}

/**
 * The cosine of the angle between two vectors of length one.
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function report() {
  page.postMessage({ kind: 'embedded', done, of: sentences.length, spent });
  answer();
}

/** @param {Encoder} encoder */
async function serve(encoder) {
  let reported = 0;
  for (;;) {
    if (query) {
      const { id, text } = query;
      query = null;
      const begin = performance.now();
      asked = { id, ...encoder.embed(text), embedding: performance.now() - begin };
      answer();
    } else if (done < sentences.length) {
      const sentence = sentences[done];
      const begin = performance.now();
      if (!vectors.has(sentence)) vectors.set(sentence, encoder.embed(sentence).vector);
      done++;
      const now = performance.now();
      spent += now - begin;
      if (now - reported > REPORT || done === sentences.length) {
        reported = now;
        report();
      }
    } else {
      await new Promise((resolve) => (wake = () => resolve(undefined)));
    }
    await breathe();
  }
}

let told = 0;
const onProgress = (/** @type {number} */ loaded, /** @type {number} */ total) => {
  if (performance.now() - told < REPORT / 2 && loaded !== total) return;
  told = performance.now();
  page.postMessage({ kind: 'progress', loaded, total });
};

Encoder.load(new URL('.', import.meta.url), onProgress)
  .then((encoder) => {
    const { target, memoryBytes } = encoder.manifest;
    page.postMessage({ kind: 'loaded', target, memoryBytes, codeBytes: fetchedBytes('minilm') });
    return serve(encoder);
  })
  .catch((error) => page.postMessage({ kind: 'failed', message: error.message }));
