// Text as the numbers of its characters, and back.

/** @typedef {{encode: (text: string) => number[], decode: (tokens: number[]) => string}} Vocabulary */

/** The characters that a model knows: each is the number of its place. */
export class Alphabet {
  /** @type {Map<string, number>} */
  #places;

  /** @param {string[]} characters */
  constructor(characters) {
    this.characters = characters;
    this.#places = new Map(characters.map((character, place) => [character, place]));
  }

  /**
   * The most frequent characters of a text.
   * @param {string} text
   * @param {number} most
   */
  static of(text, most) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
    const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most);
    return new Alphabet(frequent.map(([character]) => character).sort());
  }

  /** ASCII: what models have that say nothing of their characters. */
  static ascii() {
    return new Alphabet(Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)));
  }

  /** Characters that are not in it are left out. @param {string} text */
  encode(text) {
    const tokens = [];
    for (const character of text) {
      const place = this.#places.get(character);
      if (place !== undefined) tokens.push(place);
    }
    return tokens;
  }

  /** @param {number[]} tokens */
  decode(tokens) {
    return tokens.map((token) => this.characters[token] ?? '').join('');
  }
}

/**
 * Text as it is learnt from: one kind of line end, and accents in one character with their letter.
 * @param {string} text
 */
export const tidied = (text) => text.replace(/\r\n?/g, '\n').normalize('NFC');
