// The tokeniser of BERT models without upper case: text to the numbers of word pieces. Mirrors
// examples/minilm/tokenizer.py.

const LONGEST_WORD = 100;
const SPECIAL = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
// Control characters and others that nobody sees; tab and the ends of lines are white space.
const DROPPED = /[\ufffd\p{Cf}\p{Cs}\p{Co}]|(?![\t\n\r])\p{Cc}/gu;
const IDEOGRAPH = /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]/gu;
const RARE_IDEOGRAPH = /[\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;
// Punctuation, and the signs of ASCII that Unicode counts as symbols.
const PUNCTUATION = /[\p{P}$+<=>^`|~]/gu;

/**
 * Lower-case words without accents; punctuation marks and ideographs are words of one character.
 * @param {string} text
 */
export function words(text) {
  const spaced = text
    .replace(DROPPED, '')
    .replace(IDEOGRAPH, ' $& ')
    .replace(RARE_IDEOGRAPH, ' $& ')
    .normalize('NFD')
    .replace(/\p{Mn}/gu, '');
  // One character at a time: a sigma at the end of a word is one like any other.
  const lower = Array.from(spaced, (char) => char.toLowerCase()).join('');
  return lower
    .replace(PUNCTUATION, ' $& ')
    .split(/\p{White_Space}+/u)
    .filter(Boolean);
}

/** Splits words into the longest pieces that the vocabulary has. */
export class Tokenizer {
  /** @type {Map<string, number>} */
  #numbers;

  /** @param {string} vocabulary a piece on each line */
  constructor(vocabulary) {
    this.#numbers = new Map(
      vocabulary
        .trimEnd()
        .split('\n')
        .map((piece, number) => [piece, number]),
    );
  }

  /** @param {string} piece */
  #number(piece) {
    return /** @type {number} */ (this.#numbers.get(piece));
  }

  /**
   * The numbers of at most `limit` pieces, from [CLS] to [SEP].
   * @param {string} text
   * @param {number} [limit]
   */
  encode(text, limit = 128) {
    const numbers = text
      .split(SPECIAL)
      .flatMap((part, i) => (i % 2 ? [this.#number(part)] : words(part).flatMap((word) => this.#pieces(word))));
    return [this.#number('[CLS]'), ...numbers.slice(0, limit - 2), this.#number('[SEP]')];
  }

  /** @param {string} word */
  #pieces(word) {
    const characters = [...word];
    const found = [];
    for (let start = 0; start < characters.length; ) {
      let end = characters.length > LONGEST_WORD ? start : characters.length;
      const piece = () => (start ? '##' : '') + characters.slice(start, end).join('');
      while (end > start && !this.#numbers.has(piece())) end--;
      if (end === start) return [this.#number('[UNK]')];
      found.push(this.#number(piece()));
      start = end;
    }
    return found;
  }
}
