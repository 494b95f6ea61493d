// Runs forms of one model in turns in Node: node fewer_bits.mjs LOADER FOLDER PEERS < job. Of each the milliseconds of
// its fastest run, and how far its first result is from the first form's, relative to the largest number of that. Where
// a form lies in memory changes its time, so the job says whether they are loaded in the opposite order.

import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';

const [loader, folder, peers] = process.argv.slice(2);
let text = '';
for await (const chunk of process.stdin) text += chunk;
const { ours, theirs, inputs, weights, seconds, least, reversed } = JSON.parse(text);
const ARRAYS = { float32: Float32Array, int32: Int32Array };
const bytes = async (name) => new Uint8Array(await readFile(`${folder}/${name}`)).buffer;
const array = async ({ file, type }) => new ARRAYS[type](await bytes(file));

const api = await import(loader);
const ort = await import(pathToFileURL(`${peers}/onnxruntime-web/dist/ort.node.min.mjs`).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const given = await Promise.all(inputs.map(array));
const runs = {};
const ordered = (forms) => (reversed ? forms.toReversed() : forms);

async function loadOurs(form) {
  const exe = await api.load(await bytes(form.module));
  for (const { name, ...weight } of weights) exe.set(name, await array(weight));
  const places = exe.parameters.filter((leaf) => leaf.kind === 'input').map((leaf) => exe.input(leaf.name));
  places.forEach((place, i) => place.set(given[i]));
  const out = exe.results.map((leaf) => exe.output(leaf.name));
  runs[form.name] = () => (exe.run(...places, { out }), out[0]);
}

async function loadTheirs(form) {
  const model = new Uint8Array(await bytes(form.model));
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  const feeds = Object.fromEntries(
    inputs.map(({ name, type, shape }, i) => [name, new ort.Tensor(type, given[i], shape)]),
  );
  runs[form.name] = async () => (await session.run(feeds)).y0.data;
}

for (const [forms, load] of ordered([
  [ours, loadOurs],
  [theirs, loadTheirs],
])) {
  for (const form of ordered(forms)) await load(form);
}

const found = {};
let right;
for (const { name } of [...ours, ...theirs]) {
  const result = Float32Array.from(await runs[name]());
  right ??= result;
  const largest = right.reduce((most, y) => Math.max(most, Math.abs(y)), 0);
  found[name] = {
    ms: Infinity,
    error: result.reduce((most, y, i) => Math.max(most, Math.abs(y - right[i])), 0) / largest,
  };
}
const end = performance.now() + seconds * 1000;
for (let round = 0; round < least || performance.now() < end; round++) {
  for (const [name, run] of Object.entries(runs)) {
    for (let i = 0; i < 3; i++) {
      const begin = performance.now();
      await run();
      found[name].ms = Math.min(found[name].ms, performance.now() - begin);
    }
  }
}
process.stdout.write(JSON.stringify(found), () => process.exit());
