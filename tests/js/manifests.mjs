// Loads modules with manifests that are wrong here and there: argv[2] is a file of programs, each with its manifests.
// Prints for each manifest what `load` says, null if it takes it.

import { readFile } from 'node:fs/promises';
import { load, XlaWasmError } from '../../web/xla_wasm.js';

const bytesOf = (base64) => Uint8Array.from(Buffer.from(base64, 'base64'));
const sized = (bytes) => {
  const length = [];
  let rest = bytes.length;
  do {
    length.push((rest & 127) | (rest > 127 ? 128 : 0));
    rest >>>= 7;
  } while (rest);
  return [...length, ...bytes];
};
const encode = (text) => [...new TextEncoder().encode(text)];

const said = [];
for (const { bare, weights, manifests } of JSON.parse(await readFile(process.argv[2], 'utf8'))) {
  const module = bytesOf(bare);
  const answers = [];
  for (const manifest of manifests) {
    const section = [0, ...sized([...sized(encode('xla_wasm')), ...encode(manifest)])];
    // Weights that no entry asks for would be taken for a file of another format.
    const { inits } = JSON.parse(manifest);
    const asksForFile = Array.isArray(inits) && inits.some((init) => init?.kind === 'sidecar');
    const options = weights !== null && asksForFile ? { weights: bytesOf(weights) } : {};
    options.threads = 1;
    try {
      const exe = await load(Uint8Array.from([...module, ...section]), options);
      exe.dispose();
      answers.push(null);
    } catch (error) {
      if (!(error instanceof XlaWasmError)) throw error;
      answers.push(error.message);
    }
  }
  said.push(answers);
}
console.log(JSON.stringify(said));
