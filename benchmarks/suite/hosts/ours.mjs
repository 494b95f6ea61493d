// xla_wasm in Node. A kernel is the export `run` and nothing else, with the inputs in place; a call goes through the
// loader's `run`, into the caller's arrays where it takes them.

import { readFileSync } from 'node:fs';
import { Executable } from '../../../web/executor.js';
import { open } from '../../../web/load.js';
import { read, serve, timed } from './protocol.mjs';

/** Whether `run` writes into given arrays: asked of the loader itself. */
function takesOut(exe, inputs, out) {
  try {
    exe.run(...inputs, { out });
    return true;
  } catch (error) {
    if (/run takes/.test(error.message)) return false;
    throw error;
  }
}

await serve(async (job) => {
  const { module, manifest } = await open(readFileSync(job.module), {});
  const instance = await WebAssembly.instantiate(module, {});
  const exe = new Executable(manifest, instance);
  for (const weight of job.weights) exe.set(weight.name, read(weight));
  const inputs = job.inputs.map(read);
  const out = exe.run(...inputs);
  // Of a call that finds all states as they were given.
  const results = () => {
    for (const weight of job.states.length ? job.weights : []) exe.set(weight.name, read(weight));
    return [...exe.run(...inputs), ...job.states.map((name) => exe.get(name))];
  };
  const call = takesOut(exe, inputs, out) ? () => exe.run(...inputs, { out }) : () => exe.run(...inputs);
  const { run } = instance.exports;
  return { time: { kernel: timed(run), call: timed(call) }, results, release: () => exe.dispose() };
});
