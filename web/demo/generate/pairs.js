// Text as GPT-2's tokens, and back: byte-pair encoding with the published vocabulary. Mirrors
// examples/gpt2/vocabulary.py.

/** What pairs are merged within. */
const WORDS = /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

/** The printable character that stands for each byte in the published files. */
function letters() {
  const plain = (/** @type {number} */ byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(plain(byte) ? byte : 256 + others++));
}

/** The published vocabulary. */
export class Pairs {
  #tokens;
  #words;
  #ranks;
  #letters = letters();
  #bytes = new Map(this.#letters.map((letter, byte) => [letter, byte]));
  #utf8 = new TextDecoder();

  /**
   * @param {Record<string, number>} vocabulary the tokens' numbers
   * @param {string[]} merges two tokens each, with a space between, the first to be merged first
   */
  constructor(vocabulary, merges) {
    this.#tokens = new Map(Object.entries(vocabulary));
    this.#words = new Map([...this.#tokens].map(([word, token]) => [token, word]));
    this.#ranks = new Map(merges.map((line, rank) => [line, rank]));
  }

  /** From the texts of vocab.json and merges.txt. @param {string} vocabulary @param {string} merges */
  static from(vocabulary, merges) {
    const lines = merges.split('\n').filter((line) => line && !line.startsWith('#version'));
    return new Pairs(JSON.parse(vocabulary), lines);
  }

  /** How many tokens there are. */
  get size() {
    return this.#tokens.size;
  }

  /** @param {string} text @returns {number[]} */
  encode(text) {
    const parts = (text.match(WORDS) ?? []).flatMap((word) => this.#merged(word));
    return parts.map((part) => /** @type {number} */ (this.#tokens.get(part)));
  }

  /** @param {string} word */
  #merged(word) {
    let parts = [...new TextEncoder().encode(word)].map((byte) => this.#letters[byte]);
    for (;;) {
      const found = parts.slice(1).map((part, i) => this.#ranks.get(`${parts[i]} ${part}`) ?? Infinity);
      const best = Math.min(...found);
      if (best === Infinity) return parts;
      const at = found.indexOf(best);
      parts = [...parts.slice(0, at), parts[at] + parts[at + 1], ...parts.slice(at + 2)];
    }
  }

  /** The bytes of tokens. Characters may begin in one and end in the next. @param {number[]} tokens */
  bytes(tokens) {
    return Uint8Array.from(
      tokens.flatMap((token) => [...(this.#words.get(token) ?? '')].map((letter) => this.#bytes.get(letter) ?? 0)),
    );
  }

  /** The text of the tokens that come next; what a character lacks comes with later ones. @param {number[]} tokens */
  decode(tokens) {
    return this.#utf8.decode(this.bytes(tokens), { stream: true });
  }
}
