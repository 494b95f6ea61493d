// The encoder by xla_wasm and by onnxruntime-web, each on one thread, in this page.

const TOKENS = 128;

/** Made-up text: [CLS], some words, [SEP]. @param {number} length */
const text = (length) => Array.from({ length }, (_, i) => (i === 0 ? 101 : i === length - 1 ? 102 : 2000 + 37 * i));

/** @typedef {(numbers: number[]) => Promise<Float32Array>} Embed */

/** @returns {Promise<Embed>} */
async function ours() {
  const { load } = await import(/** @type {any} */ ('/xla_wasm.js'));
  const builds = { simd128: '/benchmark/minilm.wasm', 'relaxed-simd': '/benchmark/minilm.relaxed.wasm' };
  const exe = await load(builds, { weights: fetch('/benchmark/minilm.weights') });
  return async (numbers) => {
    const ids = new Int32Array(TOKENS);
    ids.set(numbers);
    return exe.run(ids, numbers.length)[0];
  };
}

/** @param {string} model @returns {Promise<Embed>} */
async function theirs(model) {
  const ort = await import(/** @type {any} */ ('./ort.wasm.min.mjs'));
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  return async (numbers) => {
    const ids = new ort.Tensor('int64', BigInt64Array.from(numbers, BigInt), [1, numbers.length]);
    return (await session.run({ ids })).embedding.data;
  };
}

/** @type {Record<string, () => Promise<Embed>>} */
const contestants = { ours, theirs: () => theirs('minilm.onnx'), theirs16: () => theirs('minilm16.onnx') };

/**
 * Milliseconds from import to the embedding of twelve tokens.
 * @param {string} who
 */
export async function first(who) {
  const begin = performance.now();
  const embed = await contestants[who]();
  const vector = await embed(text(12));
  const spent = performance.now() - begin;
  if (!(Math.abs(cosine(vector, vector) - 1) < 1e-3)) throw new Error(`${who} gives nonsense`);
  return spent;
}

/**
 * The least milliseconds of a run by length, contestants in turns.
 * @param {string[]} who
 * @param {number[]} lengths
 * @param {number} seconds for each contestant and length
 */
export async function steady(who, lengths, seconds) {
  /** @type {[string, Embed][]} */
  const loaded = [];
  for (const name of who) loaded.push([name, await contestants[name]()]);
  const rows = [];
  for (const length of lengths) {
    const numbers = text(length);
    /** @type {Record<string, number>} */
    const milliseconds = {};
    let nearest = 1;
    const expected = (await loaded[0][1](numbers)).slice();
    for (const [, embed] of loaded) nearest = Math.min(nearest, cosine(expected, await embed(numbers)));
    const end = performance.now() + 1000 * seconds * loaded.length;
    for (let round = 0; round < 10 || performance.now() < end; round++) {
      for (const [name, embed] of loaded) {
        const begin = performance.now();
        await embed(numbers);
        milliseconds[name] = Math.min(milliseconds[name] ?? Infinity, performance.now() - begin);
      }
    }
    rows.push({ length, milliseconds, cosine: nearest });
  }
  return rows;
}

/** @param {Float32Array} a @param {Float32Array} b */
function cosine(a, b) {
  const dot = (/** @type {Float32Array} */ x, /** @type {Float32Array} */ y) =>
    x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
