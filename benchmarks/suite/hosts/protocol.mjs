// What every host in Node speaks: JSON lines on standard input, an answer to each on standard output. A host gives
// `prepare(job)`, which makes the work ready and returns {time: {kernel, call}, results, release}: `time.kernel(n)`
// gives the milliseconds of n runs, or [milliseconds, others], where the others are what is not the runs' and is to be
// taken off.

import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  bfloat16: Uint16Array,
  float16: Uint16Array,
  complex64: Float32Array,
};

/** The array of a file. */
export const read = ({ type, path }) => {
  const bytes = readFileSync(path);
  return new ARRAYS[type](new Uint8Array(bytes).buffer);
};

/** Runs `work` n times; milliseconds. */
export const timed = (work) => (n) => {
  const begin = performance.now();
  for (let i = 0; i < n; i++) work();
  return performance.now() - begin;
};
export const timedAsync = (work) => async (n) => {
  const begin = performance.now();
  for (let i = 0; i < n; i++) await work();
  return performance.now() - begin;
};

/** Answers until standard input ends. */
export async function serve(prepare) {
  let ready;
  // Libraries that print would break the lines.
  console.log = console.info = console.warn = console.error;
  const requests = {
    async prepare({ job }) {
      ready = await prepare(job);
      return { modes: Object.keys(ready.time) };
    },
    async time({ mode, calls, samples }) {
      const ms = [];
      const less = [];
      for (let i = 0; i < samples; i++) {
        const spent = await ready.time[mode](calls);
        const [all, beside] = Array.isArray(spent) ? spent : [spent, 0];
        ms.push(all / calls);
        less.push(beside / calls);
      }
      return { ms, less };
    },
    async results({ folder }) {
      const arrays = await ready.results();
      return {
        results: arrays.map((array, i) => {
          const path = `${folder}/${i}.bin`;
          writeFileSync(path, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
          return { path, type: array.constructor.name.replace('Array', '').replace('Big', '').toLowerCase() };
        }),
      };
    },
    async release() {
      await ready?.release?.();
      ready = undefined;
      return { resident: process.memoryUsage().rss };
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      answer = await requests[request.do](request);
    } catch (error) {
      answer = { error: String(error?.stack ?? error).slice(0, 2000) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}
