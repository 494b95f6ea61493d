// Runs an artifact on the calls that standard input describes and prints the results; the Python tests compare them.

import { readFileSync } from 'node:fs';
import { load } from '../../web/xla_wasm.js';
import { decode, encode } from './vectors.mjs';

const job = JSON.parse(readFileSync(0, 'utf8'));
const exe = await load(job.wasm);
for (const [name, value] of Object.entries(job.set))
  exe.set(
    name,
    decode(
      value,
      exe.parameters.find((leaf) => leaf.name === name),
    ),
  );
const inputs = exe.parameters.filter((leaf) => leaf.kind === 'input');
const results = job.calls.map((values) => exe.run(...values.map((value, i) => decode(value, inputs[i]))).map(encode));
process.stdout.write(JSON.stringify(results));
