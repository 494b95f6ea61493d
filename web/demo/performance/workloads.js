// What the three libraries compute in turns, each in the words of the library: for xla_wasm the JAX functions of
// examples/performance/race.py, a graph of ONNX, and calls of TensorFlow.js. Images have channels last but in ONNX.

/** @typedef {import('./onnx.js').Graph} Graph */
/** @typedef {{shape: number[], scale: number, mean?: number}} Drawn an array of random numbers */
/**
 * @typedef {object} Workload
 * @property {string} name of its modules
 * @property {string} title
 * @property {string} what
 * @property {number} operations in products and sums of them
 * @property {number} tolerance of a difference, relative to the largest value
 * @property {Record<string, Drawn>} inputs in the order in which the module takes them
 * @property {Record<string, Drawn>} weights
 * @property {number[][]} results their shapes, as xla_wasm and TensorFlow.js give them
 * @property {(graph: Graph) => string[]} onnx adds the nodes; the names of results
 * @property {(tf: any, w: Record<string, any>, ...inputs: any[]) => any[]} tfjs
 * @property {boolean} [image] ONNX has channels first: its input, its taps, and a result with four dimensions
 */

const HEADS = 12;

/** @param {number[]} shape @param {number} [scale] @returns {Drawn} */
const drawn = (shape, scale = 1) => ({ shape, scale });

/** A layer's weights and its bias. @param {string} name @param {number[]} shape @returns {Record<string, Drawn>} */
function layer(name, ...shape) {
  const inputs = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  const outputs = shape.slice(-1);
  return { [name]: drawn(shape, inputs ** -0.5), [`${name}_bias`]: drawn(outputs, 0.1) };
}

/** Of a normalisation. @param {string} name @param {number} width @returns {Record<string, Drawn>} */
const norm = (name, width) => ({
  [name]: { shape: [width], scale: 0.1, mean: 1 },
  [`${name}_bias`]: drawn([width], 0.1),
});

/** A product and a bias. @param {Graph} g @param {string} x @param {string} name */
const dense = (g, x, name) => g.node('Add', [g.node('MatMul', [x, name]), `${name}_bias`]);

/** @param {Graph} g @param {string} x @param {string} name */
const normed = (g, x, name) => g.node('LayerNormalization', [x, name, `${name}_bias`], { axis: -1, epsilon: 1e-5 });

/** @param {any} tf @param {any} w @param {any} x @param {string} name */
const tfDense = (tf, w, x, name) => tf.fused.matMul({ a: x, b: w[name], bias: w[`${name}_bias`] });

/** @param {any} tf @param {any} w @param {any} x @param {string} name */
function tfNormed(tf, w, x, name) {
  const centred = tf.sub(x, tf.mean(x, -1, true));
  const variance = tf.mean(tf.square(centred), -1, true);
  return tf.add(tf.mul(tf.mul(centred, tf.rsqrt(tf.add(variance, 1e-5))), w[name]), w[`${name}_bias`]);
}

/** @type {Workload} */
const digits = {
  name: 'digits',
  title: 'The digits network',
  what: 'one image of 8\u00a0×\u00a08, two convolutions',
  operations: 2 * (64 * 9 * 16 + 64 * 9 * 16 * 32 + 512 * 10),
  tolerance: 1e-5,
  inputs: { x: drawn([1, 8, 8, 1]) },
  weights: { ...layer('conv1', 3, 3, 1, 16), ...layer('conv2', 3, 3, 16, 32), ...layer('dense', 512, 10) },
  results: [[1, 10]],
  image: true,
  onnx(g) {
    let x = 'x';
    for (const name of ['conv1', 'conv2']) {
      x = g.node('Relu', [g.node('Conv', [x, name, `${name}_bias`], { pads: [1, 1, 1, 1] })]);
    }
    x = g.node('MaxPool', [x], { kernel_shape: [2, 2], strides: [2, 2] });
    // The dense layer's rows are in the order of channels last.
    return [dense(g, g.node('Reshape', [g.node('Transpose', [x], { perm: [0, 2, 3, 1] }), g.sizes(1, 512)]), 'dense')];
  },
  tfjs(tf, w, x) {
    for (const name of ['conv1', 'conv2']) {
      const given = { x, filter: w[name], strides: 1, pad: 'same', bias: w[`${name}_bias`], activation: 'relu' };
      x = tf.fused.conv2d(given);
    }
    return [tfDense(tf, w, tf.reshape(tf.maxPool(x, 2, 2, 'valid'), [1, 512]), 'dense')];
  },
};

const [TOKENS, WIDTH, HIDDEN] = [128, 384, 1536];

/** @type {Workload} */
const encoder = {
  name: 'encoder',
  title: 'A block of an encoder',
  what: `attention and two dense layers over ${TOKENS} tokens of width ${WIDTH}, as in MiniLM`,
  operations: 2 * TOKENS * (4 * WIDTH ** 2 + 2 * WIDTH * HIDDEN + 2 * TOKENS * WIDTH),
  tolerance: 1e-4,
  inputs: { x: drawn([TOKENS, WIDTH]) },
  weights: {
    ...Object.assign({}, ...['query', 'key', 'value', 'output'].map((name) => layer(name, WIDTH, WIDTH))),
    ...layer('up', WIDTH, HIDDEN),
    ...layer('down', HIDDEN, WIDTH),
    ...norm('norm1', WIDTH),
    ...norm('norm2', WIDTH),
  },
  results: [[TOKENS, WIDTH]],
  onnx(g) {
    const split = g.sizes(1, TOKENS, HEADS, WIDTH / HEADS);
    /** @param {string} name @param {number[]} perm */
    const heads = (name, ...perm) => g.node('Transpose', [g.node('Reshape', [dense(g, 'x', name), split])], { perm });
    const [q, k, v] = [heads('query', 0, 2, 1, 3), heads('key', 0, 2, 3, 1), heads('value', 0, 2, 1, 3)];
    const scores = g.node('Div', [g.node('MatMul', [q, k]), g.number((WIDTH / HEADS) ** 0.5)]);
    const mixed = g.node('MatMul', [g.node('Softmax', [scores], { axis: -1 }), v]);
    const merged = g.node('Reshape', [g.node('Transpose', [mixed], { perm: [0, 2, 1, 3] }), g.sizes(TOKENS, WIDTH)]);
    const x = normed(g, g.node('Add', ['x', dense(g, merged, 'output')]), 'norm1');
    const h = dense(g, x, 'up');
    const half = g.node('Add', [g.node('Erf', [g.node('Div', [h, g.number(2 ** 0.5)])]), g.number(1)]);
    const active = g.node('Mul', [g.node('Mul', [h, half]), g.number(0.5)]);
    return [normed(g, g.node('Add', [x, dense(g, active, 'down')]), 'norm2')];
  },
  tfjs(tf, w, x) {
    const size = WIDTH / HEADS;
    const [q, k, v] = ['query', 'key', 'value'].map((name) =>
      tf.transpose(tf.reshape(tfDense(tf, w, x, name), [TOKENS, HEADS, size]), [1, 0, 2]),
    );
    const scores = tf.softmax(tf.mul(tf.matMul(q, k, false, true), size ** -0.5));
    const mixed = tf.reshape(tf.transpose(tf.matMul(scores, v), [1, 0, 2]), [TOKENS, WIDTH]);
    const y = tfNormed(tf, w, tf.add(x, tfDense(tf, w, mixed, 'output')), 'norm1');
    const h = tfDense(tf, w, y, 'up');
    const active = tf.mul(tf.mul(h, 0.5), tf.add(tf.erf(tf.mul(h, Math.SQRT1_2)), 1));
    return [tfNormed(tf, w, tf.add(y, tfDense(tf, w, active, 'down')), 'norm2')];
  },
};

/** @type {Workload} */
const conv = {
  name: 'conv',
  title: 'A convolution',
  what: '3\u00a0×\u00a03, an image of 56\u00a0×\u00a056, 64 channels to 64',
  operations: 2 * 56 ** 2 * 9 * 64 * 64,
  tolerance: 1e-5,
  inputs: { x: drawn([1, 56, 56, 64]) },
  weights: { taps: drawn([3, 3, 64, 64], (9 * 64) ** -0.5) },
  results: [[1, 56, 56, 64]],
  image: true,
  onnx: (g) => [g.node('Conv', ['x', 'taps'], { pads: [1, 1, 1, 1] })],
  tfjs: (tf, w, x) => [tf.conv2d(x, w.taps, 1, 'same')],
};

const [MODEL, PAST] = [768, 127];
const SIZE = MODEL / HEADS;
const ROOT = (2 / Math.PI) ** 0.5; // in GELU's form with tanh

/** @type {Workload} */
const decode = {
  name: 'decode',
  title: 'A step of decoding',
  what: `one token through a block of GPT-2 small, with the keys and values of ${PAST} before it`,
  operations: 2 * (12 * MODEL ** 2 + 2 * (PAST + 1) * MODEL),
  tolerance: 1e-4,
  inputs: { x: drawn([1, MODEL]), cache: drawn([2, HEADS, PAST, SIZE]) },
  weights: {
    ...layer('attend', MODEL, 3 * MODEL),
    ...layer('project', MODEL, MODEL),
    ...layer('up', MODEL, 4 * MODEL),
    ...layer('down', 4 * MODEL, MODEL),
    ...norm('norm1', MODEL),
    ...norm('norm2', MODEL),
  },
  results: [
    [1, MODEL],
    [2, HEADS, 1, SIZE],
  ],
  onnx(g) {
    const split = g.node('Reshape', [dense(g, normed(g, 'x', 'norm1'), 'attend'), g.sizes(3, HEADS, 1, SIZE)]);
    const [q, k, v] = g.nodes('Split', 3, [split], { axis: 0, num_outputs: 3 });
    const held = g.nodes('Split', 2, ['cache'], { axis: 0, num_outputs: 2 });
    const [keys, values] = [k, v].map((added, part) => g.node('Concat', [held[part], added], { axis: 2 }));
    const scores = g.node('MatMul', [q, g.node('Transpose', [keys], { perm: [0, 1, 3, 2] })]);
    const shares = g.node('Softmax', [g.node('Div', [scores, g.number(SIZE ** 0.5)])], { axis: -1 });
    const mixed = g.node('Reshape', [g.node('MatMul', [shares, values]), g.sizes(1, MODEL)]);
    const x = g.node('Add', ['x', dense(g, mixed, 'project')]);
    const h = dense(g, normed(g, x, 'norm2'), 'up');
    const cubed = g.node('Mul', [g.node('Mul', [g.node('Mul', [h, h]), h]), g.number(0.044715)]);
    const tanh = g.node('Tanh', [g.node('Mul', [g.node('Add', [h, cubed]), g.number(ROOT)])]);
    const active = g.node('Mul', [g.node('Mul', [h, g.number(0.5)]), g.node('Add', [tanh, g.number(1)])]);
    return [g.node('Add', [x, dense(g, active, 'down')]), g.node('Concat', [k, v], { axis: 0 })];
  },
  tfjs(tf, w, x, cache) {
    const split = tf.reshape(tfDense(tf, w, tfNormed(tf, w, x, 'norm1'), 'attend'), [3, HEADS, 1, SIZE]);
    const [q, k, v] = tf.unstack(split);
    const [keys, values] = tf
      .unstack(cache)
      .map((/** @type {any} */ held, /** @type {number} */ part) => tf.concat([held, part ? v : k], 1));
    const shares = tf.softmax(tf.mul(tf.matMul(q, keys, false, true), SIZE ** -0.5));
    const mixed = tf.reshape(tf.matMul(shares, values), [1, MODEL]);
    const y = tf.add(x, tfDense(tf, w, mixed, 'project'));
    const h = tfDense(tf, w, tfNormed(tf, w, y, 'norm2'), 'up');
    const inner = tf.mul(tf.add(h, tf.mul(tf.mul(tf.mul(h, h), h), 0.044715)), ROOT);
    const active = tf.mul(tf.mul(h, 0.5), tf.add(tf.tanh(inner), 1));
    return [tf.add(y, tfDense(tf, w, active, 'down')), tf.stack([k, v])];
  },
};

export const WORKLOADS = [digits, encoder, conv, decode];
