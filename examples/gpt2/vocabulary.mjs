// Text as GPT-2's tokens, and back: byte-pair encoding with the published vocab.json and merges.txt, or a token for each byte.

import { readFile } from 'node:fs/promises';

/** What pairs are merged within. */
const WORDS = /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

/** The printable character that stands for each byte in the published files. */
function letters() {
  const plain = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(plain(byte) ? byte : 256 + others++));
}

/** A token for each byte. */
export const bytes = {
  encode: (text) => [...Buffer.from(text)],
  decode: (tokens) => Buffer.from(tokens),
};

/** The published vocabulary, in a folder with vocab.json and merges.txt. */
export async function pairs(folder) {
  const tokens = new Map(Object.entries(JSON.parse(await readFile(`${folder}/vocab.json`, 'utf8'))));
  const words = new Map([...tokens].map(([word, token]) => [token, word]));
  const lines = (await readFile(`${folder}/merges.txt`, 'utf8')).split('\n').filter((line) => line && !line.startsWith('#version'));
  const ranks = new Map(lines.map((line, rank) => [line, rank]));
  const letterOf = letters();
  const byteOf = new Map(letterOf.map((letter, byte) => [letter, byte]));

  function merged(word) {
    let parts = [...Buffer.from(word)].map((byte) => letterOf[byte]);
    for (;;) {
      const found = parts.slice(1).map((part, i) => ranks.get(`${parts[i]} ${part}`) ?? Infinity);
      const best = Math.min(...found);
      if (best === Infinity) return parts;
      const at = found.indexOf(best);
      parts = [...parts.slice(0, at), parts[at] + parts[at + 1], ...parts.slice(at + 2)];
    }
  }

  return {
    encode: (text) => (text.match(WORDS) ?? []).flatMap(merged).map((part) => tokens.get(part)),
    decode: (given) => Buffer.from(given.flatMap((token) => [...words.get(token)].map((letter) => byteOf.get(letter)))),
  };
}
