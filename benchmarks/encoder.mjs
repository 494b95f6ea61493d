// Times the encoder in Node: builds of xla_wasm against onnxruntime-web, in turns, in one thread. The job, JSON on standard input,
// names the files; standard output gets the least milliseconds of each and how far the outputs lie apart.

import { readFileSync } from 'node:fs';
import { load } from '../web/xla_wasm.js';

const job = JSON.parse(readFileSync(0, 'utf8'));
const floats = (path) => new Float32Array(new Uint8Array(readFileSync(path)).buffer);
const input = floats(job.input);
const weights = floats(job.weights);

/** @type {Record<string, () => Promise<Float32Array>>} */
const contestants = {};
for (const [name, path] of Object.entries(job.builds)) {
  const exe = await load(path);
  let at = 0;
  for (const { name: weight, size } of job.layout) exe.set(weight, weights.subarray(at, (at += size)));
  contestants[name] = async () => exe.run(input)[0];
}
if (job.runtime) {
  const ort = await import(job.runtime);
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(job.onnx)), { executionProviders: ['wasm'], graphOptimizationLevel: 'all' });
  const feeds = { x: new ort.Tensor('float32', input, job.shape) };
  contestants['onnxruntime-web'] = async () => (await session.run(feeds)).y.data;
}

// The thread's time on its core, so that waiting for a core does not count. Linux brings that up to date at every tick, some
// milliseconds apart, and when the thread sleeps.
const nothing = new Int32Array(new SharedArrayBuffer(4));
const clock = () => {
  Atomics.wait(nothing, 0, 0, 0.05);
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
};
const names = Object.keys(contestants);
const outputs = [];
// Until V8 has optimised every function.
for (let i = 0; i < job.warmup; i++) for (const [k, name] of names.entries()) outputs[k] = (await contestants[name]()).slice();
const best = names.map(() => Infinity);
const end = performance.now() + job.seconds * 1e3 * names.length;
for (let round = 0; round < job.runs || performance.now() < end; round++) {
  for (const [k, name] of names.entries()) {
    const begin = clock();
    await contestants[name]();
    best[k] = Math.min(best[k], clock() - begin);
  }
}
const differences = outputs.map((output) => output.reduce((worst, y, i) => Math.max(worst, Math.abs(y - outputs[0][i])), 0));
const result = names.map((name, k) => [name, { milliseconds: best[k], difference: differences[k] }]);
process.stdout.write(JSON.stringify({ node: process.version, times: Object.fromEntries(result), output: [...outputs[0]] }));
