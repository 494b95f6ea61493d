// A model that writes: one token after the other, of which each is drawn inside the module, whose state remembers the
// ones before.

/** @typedef {import('../../xla_wasm.js').Executable} Executable */
/** @typedef {import('./alphabet.js').Vocabulary} Vocabulary */

export class Writer {
  #position = 0;
  /** @type {number[]} what the model looks back on, the newest last */
  #past = [];
  /** What it was told to begin with and has not read yet. @type {number[]} */
  #prompt = [];
  #token = 0;

  /**
   * @param {Executable} exe
   * @param {Vocabulary} vocabulary
   * @param {number} characters tokens that there are
   */
  constructor(exe, vocabulary, characters) {
    this.exe = exe;
    this.vocabulary = vocabulary;
    this.characters = characters;
    const cache = exe.parameters.find(({ name }) => name === 'state.cache.k0');
    this.length = /** @type {import('../../manifest.js').Leaf} */ (cache).dimensions[1];
    for (const { name, kind, element_type, bytes } of exe.parameters) {
      if (kind === 'state')
        exe.set(
          name,
          element_type === 'f32'
            ? new Float32Array(bytes / 4)
            : element_type === 'u32'
              ? new Uint32Array(bytes / 4)
              : new Int32Array(bytes / 4),
        );
    }
  }

  /**
   * Begins a text.
   * @param {string} prompt how
   * @param {number} seed of what is drawn
   */
  begin(prompt, seed) {
    const tokens = this.vocabulary.encode(prompt);
    this.#prompt = tokens.length ? tokens : this.vocabulary.encode('\n').slice(0, 1);
    if (!this.#prompt.length) this.#prompt = [0];
    this.#past = [];
    this.#restart();
    this.exe.set('state.key', Uint32Array.of(0, seed));
  }

  #restart() {
    this.#position = 0;
    this.exe.set('state.position', Int32Array.of(0));
  }

  /** @param {number} token @param {number} temperature */
  #feed(token, temperature) {
    // Where its memory is full, it reads the newer half of the past once more and goes on from there.
    if (this.#position === this.length) {
      this.#restart();
      this.#past = this.#past.slice(-Math.floor(this.length / 2));
      for (const past of this.#past) this.#step(past, temperature);
    }
    this.#past.push(token);
    this.#step(token, temperature);
  }

  /** @param {number} token @param {number} temperature */
  #step(token, temperature) {
    const [drawn] = this.exe.run(token, temperature, this.characters);
    this.#token = drawn[0];
    this.#position++;
  }

  /**
   * The token that comes next.
   * @param {number} temperature 0: the likeliest each time
   */
  next(temperature) {
    for (const token of this.#prompt.splice(0)) this.#feed(token, temperature);
    const token = this.#token;
    this.#prompt = [token];
    return token;
  }
}
