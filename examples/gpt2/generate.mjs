// Writes text in Node with a module that generate.py has saved: node examples/gpt2/generate.mjs gpt2.wasm "ROMEO."

import { parseArgs } from 'node:util';
import { load } from '../../web/xla_wasm.js';
import { bytes, pairs } from './vocabulary.mjs';

const HELP = `usage: node generate.mjs MODULE.WASM [PROMPT] [options]

Writes text with a GPT-2, one token after the other. generate.py --save makes the module, for a size of the
model and a length of texts.

  --weights FILE          a safetensors file with the weights; by default the small model beside this
  --vocabulary FOLDER     where vocab.json and merges.txt are; else a token is a byte
  --length TOKENS         tokens to write; default 200
  --temperature NUMBER    0 takes the likeliest token each time; default 0.8
  --seed NUMBER           of the random draws; default 0
  --threads N             how many threads share the work, of a module that was saved with --threads; default 1
`;

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    weights: { type: 'string', default: new URL('./tiny.safetensors', import.meta.url).pathname },
    vocabulary: { type: 'string' },
    length: { type: 'string', default: '200' },
    temperature: { type: 'string', default: '0.8' },
    seed: { type: 'string', default: '0' },
    threads: { type: 'string', default: '1' },
    help: { type: 'boolean', short: 'h' },
  },
});
const [path, text = 'ROMEO.\n'] = positionals;
if (given.help || !path) {
  process.stdout.write(HELP);
  process.exit(given.help ? 0 : 2);
}

/** What a state is before the first token: zeros, but the key of the random draws, as JAX makes it of a seed. */
function begin(exe, seed) {
  for (const { name, kind, bytes: size, element_type: type } of exe.parameters) {
    if (kind !== 'state') continue;
    if (name === 'state.key') exe.set(name, Uint32Array.of(0, seed));
    else exe.set(name, type === 'f32' ? new Float32Array(size / 4) : new Int32Array(size / 4));
  }
}

try {
  const vocabulary = given.vocabulary ? await pairs(given.vocabulary) : bytes;
  const began = performance.now();
  const exe = await load(path, { weights: given.weights, threads: Number(given.threads) });
  begin(exe, Number(given.seed));
  const length = exe.parameters.find(({ name }) => name === 'state.cache.k0').dimensions[1];
  const [tokens] = exe.parameters.find(({ name }) => name === 'wte.weight').dimensions;
  const shows = given.vocabulary || tokens <= 256;
  console.error(`ready in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  const prompt = vocabulary.encode(text);
  if (!prompt.length) prompt.push(0);
  let spent = 0;
  let token = -1;
  let count = 0;
  for (; count < Math.min(prompt.length + Number(given.length), length); count++) {
    const own = prompt[count] ?? token;
    process.stdout.write(shows ? vocabulary.decode([own]) : `${own} `);
    const before = performance.now();
    [[token]] = exe.run(own, Number(given.temperature));
    spent += performance.now() - before;
  }
  console.error(`\n${((count / spent) * 1000).toFixed(1)} tokens a second, threads: ${given.threads}`);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
}
