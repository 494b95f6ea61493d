// The model at work, away from the page: it embeds sentences one after another, and answers a query as soon as one
// comes.

import { breathe, fetchedBytes } from '../shared.js';
import { Encoder } from './encoder.js';

const SHOWN = 12;
const REPORT = 100; // milliseconds between two reports

const page = /** @type {any} */ (self);

/** @type {{id: number, text: string} | null} the last query that has no answer yet */
let query = null;
/**
 * @type {{id: number, vector: Float32Array, tokens: number, embedding: number} | null} the query that the answer shown
 *   is of
 */
let asked = null;
/** @type {string[]} */
let sentences = [];
let done = 0;
let spent = 0;
/** Sentences that were embedded here, and did not come with the page. */
let made = 0;
/** @type {Map<string, Float32Array>} a person may come back to sentences */
const vectors = new Map();
/** @type {() => void} */
let wake = () => {};

page.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.sentences) {
    sentences = data.sentences;
    done = spent = made = 0;
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
  const scores = sentences
    .slice(0, done)
    .map((sentence, index) => ({ index, score: dot(vector, /** @type {Float32Array} */ (vectors.get(sentence))) }));
  scores.sort((a, b) => b.score - a.score);
  page.postMessage({
    kind: 'answer',
    id,
    tokens,
    embedding,
    ranking: performance.now() - begin,
    best: scores.slice(0, SHOWN),
  });
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
  page.postMessage({ kind: 'embedded', done, of: sentences.length, made, spent });
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
      while (vectors.has(sentences[done])) done++;
      const begin = performance.now();
      if (done < sentences.length) {
        vectors.set(sentences[done], encoder.embed(sentences[done]).vector);
        done++;
        made++;
      }
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

/**
 * Takes the vectors that come with the page, if those who made them had the weights that are here.
 * @param {Encoder} encoder
 */
async function takeVectors(encoder) {
  const response = await coming;
  if (!response?.ok) return;
  const bytes = new Uint8Array(await response.arrayBuffer());
  const head = bytes.indexOf(0x0a) + 1;
  const known = JSON.parse(new TextDecoder().decode(bytes.subarray(0, head)));
  if (known.weights !== encoder.weights) return;
  const halves = new Uint16Array(bytes.slice(head).buffer);
  const width = halves.length / known.sentences.length;
  known.sentences.forEach((/** @type {string} */ sentence, /** @type {number} */ i) => {
    // The upper half of a number of 32 bits is one of bf16.
    const numbers = Uint32Array.from(halves.subarray(i * width, (i + 1) * width), (half) => half << 16);
    vectors.set(sentence, new Float32Array(numbers.buffer));
  });
}

const coming = fetch(new URL('sentences.bin', import.meta.url)).catch(() => undefined);
let told = 0;
const onProgress = (/** @type {number} */ loaded, /** @type {number} */ total) => {
  if (performance.now() - told < REPORT / 2 && loaded !== total) return;
  told = performance.now();
  page.postMessage({ kind: 'progress', loaded, total });
};

Encoder.load(new URL('.', import.meta.url), onProgress)
  .then(async (encoder) => {
    await takeVectors(encoder);
    const { target, memoryBytes } = encoder.manifest;
    page.postMessage({ kind: 'loaded', target, memoryBytes, codeBytes: fetchedBytes('minilm') });
    return serve(encoder);
  })
  .catch((error) => page.postMessage({ kind: 'failed', message: error.message }));
