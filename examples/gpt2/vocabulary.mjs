// Text as GPT-2's tokens, and back: byte-pair encoding with the published vocab.json and merges.txt, or a token for
// each byte.

import { readFile } from 'node:fs/promises';
import { Pairs } from '../../web/demo/generate/pairs.js';

/** A token for each byte. */
export const bytes = {
  encode: (text) => [...Buffer.from(text)],
  decode: (tokens) => Buffer.from(tokens),
};

/** The published vocabulary, in a folder with vocab.json and merges.txt. */
export async function pairs(folder) {
  const read = (name) => readFile(`${folder}/${name}`, 'utf8');
  const made = Pairs.from(await read('vocab.json'), await read('merges.txt'));
  return { encode: (text) => made.encode(text), decode: (tokens) => Buffer.from(made.bytes(tokens)) };
}
