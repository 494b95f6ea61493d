// The figures of Node: node threads_node.mjs LOADER FOLDER [PEERS] < job; onnxruntime-web beside ours where PEERS has
// it.

import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { measure } from './threads.js';

const [loader, folder, peers] = process.argv.slice(2);
let text = '';
for await (const chunk of process.stdin) text += chunk;
const job = JSON.parse(text);
const bytes = async (name) => new Uint8Array(await readFile(`${folder}/${name}`)).buffer;

/** Sessions of onnxruntime-web, which has one number of threads for all of them. */
async function onnxruntime(work) {
  if (!peers || !work.onnx) return {};
  const ort = await import(pathToFileURL(`${peers}/onnxruntime-web/dist/ort.node.min.mjs`).href);
  ort.env.wasm.numThreads = job.peerThreads;
  ort.env.logLevel = 'error';
  const model = new Uint8Array(await bytes(work.onnx));
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  const feeds = {};
  for (const [name, file, shape] of work.feeds)
    feeds[name] = new ort.Tensor('float32', new Float32Array(await bytes(file)), shape);
  return { [`onnxruntime-web ${job.peerThreads}`]: () => session.run(feeds) };
}

const found = await measure(await import(loader), bytes, job, onnxruntime);
process.stdout.write(JSON.stringify(found), () => process.exit());
