// Runs an artifact on arrays with shapes that standard input describes; prints the results with theirs, or the error of
// a call.

import { readFileSync } from 'node:fs';
import { load } from '../../web/xla_wasm.js';
import { decode, encode } from './vectors.mjs';

const job = JSON.parse(readFileSync(0, 'utf8'));
const answer = [];
try {
  const exe = await load(job.wasm, { physical: job.physical });
  for (const values of job.calls) {
    try {
      const given = values.map((value, i) =>
        Array.isArray(value) ? value : Object.assign(decode(value, exe.parameters[i]), { shape: value.shape }),
      );
      answer.push(exe.run(...given).map((array) => ({ data: encode(array), shape: array.shape ?? null })));
    } catch (error) {
      answer.push(`${error.name}: ${error.message}`);
    }
  }
} catch (error) {
  answer.push(`${error.name}: ${error.message}`);
}
process.stdout.write(JSON.stringify(answer));
