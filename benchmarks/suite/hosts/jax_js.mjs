// jax-js with its wasm backend, on one thread (Node has no web workers). A kernel takes and gives arrays in its heap; a
// call begins and ends with typed arrays.

import { pathToFileURL } from 'node:url';
import { read, serve, timedAsync } from './protocol.mjs';

const {
  init,
  defaultDevice,
  jit,
  numpy: np,
  lax,
  nn,
} = await import(pathToFileURL(`${process.argv[2]}/@jax-js/jax/dist/index.js`).href);
await init('wasm');
defaultDevice('wasm');

await serve(async (job) => {
  const array = ({ type, shape }, data) => np.array(data, { dtype: type, shape });
  const names = job.inputs.map((input) => input.name);
  const work = new Function('np', 'lax', 'nn', 'w', 'zero', ...names, `return ${job.expression};`);
  const compute = jit((weights, zero, ...given) => work(np, lax, nn, weights, zero, ...given));
  const arrays = job.inputs.map(read);
  const held = job.inputs.map((input, i) => array(input, arrays[i]));
  const weights = Object.fromEntries(job.weights.map((weight) => [weight.name, array(weight, read(weight))]));
  const zero = np.array([0]);
  const refs = () => Object.fromEntries(Object.entries(weights).map(([name, weight]) => [name, weight.ref]));
  const list = (made) => (Array.isArray(made) ? made : [made]);
  const run = (given) => list(compute(refs(), zero.ref, ...given));
  const call = async () => {
    const made = run(job.inputs.map((input, i) => array(input, arrays[i])));
    const data = [];
    for (const y of made) data.push(await y.data());
    return data;
  };
  const kernel = async () => {
    const made = run(held.map((x) => x.ref));
    for (const y of made) {
      await y.blockUntilReady();
      y.dispose();
    }
  };
  return {
    time: { kernel: timedAsync(kernel), call: timedAsync(call) },
    results: call,
    release: () => [zero, ...held, ...Object.values(weights)].forEach((x) => x.dispose()),
  };
});
