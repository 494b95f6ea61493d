// TensorFlow.js with its wasm backend, on one thread. A kernel takes and gives tensors in its heap; a call begins and
// ends with typed arrays.

import { createRequire } from 'node:module';
import { read, serve, timed } from './protocol.mjs';

const folder = process.argv[2];
const require = createRequire(`${folder}/x.js`);
const tf = require('@tensorflow/tfjs-core');
const { setWasmPaths } = require('@tensorflow/tfjs-backend-wasm');
setWasmPaths(`${folder}/@tensorflow/tfjs-backend-wasm/dist/`);
await tf.setBackend('wasm');
// The package for Node leaves out what makes functions methods.
for (const name of Object.keys(tf)) {
  const op = tf[name];
  if (typeof op === 'function' && !(name in tf.Tensor.prototype))
    tf.Tensor.prototype[name] = function (...rest) {
      return op(this, ...rest);
    };
}

const TYPES = { float32: 'float32', int32: 'int32', bool: 'bool' };

await serve(async (job) => {
  const tensor = ({ type, shape }, data) => tf.tensor(data, shape, TYPES[type]);
  const names = job.inputs.map((input) => input.name);
  const work = new Function('tf', 'w', ...names, `return ${job.expression};`);
  const arrays = job.inputs.map(read);
  const held = job.inputs.map((input, i) => tensor(input, arrays[i]));
  const weights = Object.fromEntries(job.weights.map((weight) => [weight.name, tensor(weight, read(weight))]));
  const compute = (tensors) => tf.tidy(() => work(tf, weights, ...tensors));
  const list = (made) => (Array.isArray(made) ? made : [made]);
  const call = () => {
    const given = job.inputs.map((input, i) => tensor(input, arrays[i]));
    const made = list(compute(given));
    const data = made.map((y) => y.dataSync());
    tf.dispose([given, made]);
    return data;
  };
  return {
    time: { kernel: timed(() => tf.dispose(compute(held))), call: timed(call) },
    results: () => call(),
    release: () => tf.dispose([held, weights]),
  };
});
