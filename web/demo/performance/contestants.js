// The libraries: how each is loaded, and how it makes a workload ready to be computed, from typed arrays to typed arrays.

import { load } from '../../xla_wasm.js';
import { builds } from '../shared.js';
import { Graph } from './onnx.js';

/** @typedef {import('./workloads.js').Workload} Workload */
/** @typedef {Record<string, Float32Array>} Arrays */
/** @typedef {{run: () => Float32Array[] | Promise<Float32Array[]>, release: () => unknown}} Ready */
/** @typedef {(workload: Workload, weights: Arrays, inputs: Arrays) => Promise<Ready>} Prepare */

const PEERS = new URL('../../peers/', import.meta.url);
const FIRST = [0, 3, 1, 2]; // channels before rows and columns
const LAST = [0, 2, 3, 1];
const TAPS_FIRST = [3, 2, 0, 1];

/** Each loads the library; how it prepares. @type {Record<string, () => Promise<Prepare>>} */
export const CONTESTANTS = {
  xla_wasm: async () => async (workload, weights, inputs) => {
    const exe = await load(builds(workload.name, import.meta.url));
    for (const [name, array] of Object.entries(weights)) exe.set(`w.${name}`, array);
    const given = Object.values(inputs);
    return {
      run: () => /** @type {Float32Array[]} */ (exe.run(...given)),
      release: () => exe.dispose(),
    };
  },

  async ort() {
    const ort = await import(`${PEERS}ort.mjs`);
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = await unpacked('ort.wasm.gz');
    ort.env.logLevel = 'error';
    return async (workload, weights, inputs) => {
      const graph = new Graph();
      /** @param {string} name @param {Float32Array} data @param {number[]} shape */
      const ordered = (name, data, shape) => {
        if (!workload.image || shape.length !== 4) return { data, shape };
        return transposed(data, shape, name in inputs ? FIRST : TAPS_FIRST);
      };
      for (const [name, array] of Object.entries(weights)) {
        const { data, shape } = ordered(name, array, workload.weights[name].shape);
        graph.constant(name, data, shape);
      }
      const given = Object.entries(inputs).map(([name, array]) => ({
        name,
        ...ordered(name, array, workload.inputs[name].shape),
      }));
      const results = workload.onnx(graph);
      const shapes = workload.results.map((shape) =>
        workload.image && shape.length === 4 ? FIRST.map((axis) => shape[axis]) : shape,
      );
      const model = graph.model(
        Object.fromEntries(given.map(({ name, shape }) => [name, shape])),
        Object.fromEntries(results.map((name, i) => [name, shapes[i]])),
      );
      const session = await ort.InferenceSession.create(model, {
        executionProviders: ['wasm'],
        graphOptimizationLevel: 'all',
      });
      const run = async () => {
        const feeds = given.map(({ name, data, shape }) => [name, new ort.Tensor('float32', data, shape)]);
        const made = await session.run(Object.fromEntries(feeds));
        return results.map((name) => made[name].data);
      };
      return { run, release: () => session.release() };
    };
  },

  async tfjs() {
    const tf = await import(`${PEERS}tfjs.mjs`);
    // It wants to know all of its builds. xla_wasm needs SIMD, too, and all race on one thread.
    const files = ['', '-simd', '-threaded-simd'].map((build) => `tfjs-backend-wasm${build}.wasm`);
    tf.setWasmPaths(Object.fromEntries(files.map((file) => [file, `${PEERS}tfjs.wasm`])));
    tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
    if (!(await tf.setBackend('wasm'))) throw new Error('its wasm backend does not start');
    return async (workload, weights, inputs) => {
      const made = Object.entries(workload.weights).map(([name, { shape }]) => [name, tf.tensor(weights[name], shape)]);
      const held = Object.fromEntries(made);
      const run = () => {
        const given = Object.entries(inputs).map(([name, array]) => tf.tensor(array, workload.inputs[name].shape));
        const results = tf.tidy(() => workload.tfjs(tf, held, ...given));
        const data = results.map((/** @type {any} */ result) => result.dataSync());
        tf.dispose([given, results]);
        return data;
      };
      return { run, release: () => tf.dispose(held) };
    };
  },
};

/**
 * A file of a library, packed so that every host sends it so.
 * @param {string} name
 */
async function unpacked(name) {
  const answer = await fetch(new URL(name, PEERS));
  if (!answer.ok || !answer.body) throw new Error(`cannot fetch ${answer.url}: ${answer.status}`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  // Some hosts say of such files that they are packed, and the browser has unpacked them.
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

/**
 * An array of four dimensions in another order of these.
 * @param {Float32Array} data
 * @param {number[]} shape
 * @param {number[]} order
 */
function transposed(data, shape, order) {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const sizes = order.map((axis) => shape[axis]);
  const [a, b, c, d] = order.map((axis) => strides[axis]);
  const made = new Float32Array(data.length);
  let at = 0;
  for (let i = 0; i < sizes[0]; i++)
    for (let j = 0; j < sizes[1]; j++)
      for (let k = 0; k < sizes[2]; k++)
        for (let l = 0; l < sizes[3]; l++) made[at++] = data[i * a + j * b + k * c + l * d];
  return { data: made, shape: sizes };
}

/**
 * The largest difference of results, relative to the largest value; infinite where one is no number.
 * @param {Workload} workload
 * @param {string} name of the contestant
 * @param {Float32Array[]} results
 * @param {Float32Array[]} expected
 */
export function difference(workload, name, results, expected) {
  let most = 0;
  workload.results.forEach((shape, i) => {
    const last = name === 'ort' && workload.image && shape.length === 4;
    const sizes = FIRST.map((axis) => shape[axis]);
    const given = last ? transposed(results[i], sizes, LAST).data : results[i];
    if (given.length !== expected[i].length) most = Infinity;
    let largest = 0;
    let apart = 0;
    for (let at = 0; at < given.length; at++) {
      largest = Math.max(largest, Math.abs(expected[i][at]));
      const difference = Math.abs(given[at] - expected[i][at]);
      apart = Math.max(apart, difference); // a NaN stays
    }
    most = Math.max(most, Number.isFinite(apart) && largest ? apart / largest : Infinity);
  });
  return most;
}
