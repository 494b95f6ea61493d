// Runs an artifact on physical bytes that standard input describes and prints the results' bytes, or the error.

import { readFileSync } from 'node:fs';
import { load } from '../../web/xla_wasm.js';

const job = JSON.parse(readFileSync(0, 'utf8'));
const bytes = (text) => Uint8Array.from(Buffer.from(text, 'base64'));
let answer;
try {
  const exe = await load(job.wasm, { physical: true });
  for (const [name, text] of Object.entries(job.set)) exe.set(name, bytes(text));
  const held = Object.keys(job.set).map((name) => exe.get(name));
  answer = [...held, ...exe.run(...job.arguments.map(bytes))].map((array) => Buffer.from(array).toString('base64'));
} catch (error) {
  answer = `${error.name}: ${error.message}`;
}
process.stdout.write(JSON.stringify(answer));
