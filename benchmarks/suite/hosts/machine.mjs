// The limits of this machine, as modules of the suite's own see them: multiply-adds and reading.

import { readFileSync } from 'node:fs';
import { serve, timed } from './protocol.mjs';

await serve(async (job) => {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(job.module)));
  // Pages that were never written are all the same one.
  new Uint8Array(exports.memory.buffer, 1 << 16).fill(1);
  return { time: Object.fromEntries(job.modes.map((mode) => [mode, timed(exports[mode])])) };
});
