// onnxruntime-web on one thread. A kernel's time is what each more trip of a loop around the graph takes; a call is a
// run of the session.

import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { read, serve, timedAsync } from './protocol.mjs';

const ort = await import(pathToFileURL(`${process.argv[2]}/onnxruntime-web/dist/ort.node.min.mjs`).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const session = (path) =>
  ort.InferenceSession.create(new Uint8Array(readFileSync(path)), {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });

await serve(async (job) => {
  const feeds = Object.fromEntries(
    job.inputs.map((input) => [input.name, new ort.Tensor(input.type, read(input), input.shape)]),
  );
  const model = await session(job.model);
  const ready = {
    time: { call: timedAsync(() => model.run(feeds)) },
    async results() {
      const made = await model.run(feeds);
      return model.outputNames.map((name) => made[name].data);
    },
    async release() {
      await model.release();
      await loop?.release();
    },
  };
  const loop = job.loop && (await session(job.loop));
  if (loop) {
    const trips = (n) => ({ ...feeds, trips: new ort.Tensor('int64', BigInt64Array.of(BigInt(n)), []) });
    const run = async (n) => {
      const given = trips(n);
      const begin = performance.now();
      await loop.run(given);
      return performance.now() - begin;
    };
    // One trip is what it costs to call at all.
    ready.time.kernel = async (n) => [await run(n + 1), await run(1)];
  }
  return ready;
});
