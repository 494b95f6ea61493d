// Trains and writes, off the page's own thread. Three compiled modules do the work: `initial` makes random weights of a
// seed, `step` is one step of training and keeps weights and moments as its state, `write` draws one character after
// the other with the weights of `step`.

import { load } from '../../xla_wasm.js';
import { breathe, builds, fetchedBytes, seeded } from '../shared.js';
import { Alphabet, tidied } from './alphabet.js';
import { OWN, lacking, readVocabulary, readWeights, saved } from './published.js';
import { Writer } from './writer.js';

/** @typedef {import('../../xla_wasm.js').Executable} Executable */
/**
 * @typedef {{type: 'text', text: string} | {type: 'run' | 'pause' | 'save' | 'own'} | {type: 'reset', seed: number}
 *   | {type: 'write', prompt: string} | {type: 'temperature', value: number} | {type: 'open', files: File[]}} Request
 * @typedef {{type: 'ready', bytes: number | undefined, memory: number, target: string, threads: number}
 *   | {type: 'fresh', characters: number, length: number, left: number, step: number}
 *   | {type: 'progress', step: number, losses: Float32Array, speed: number, read: number}
 *   | {type: 'paused'}
 *   | {type: 'began', step: number, prompt: string}
 *   | {type: 'wrote', text: string}
 *   | {type: 'written', step: number, speed: number, unit: string}
 *   | {type: 'loading', loaded: number, total: number}
 *   | {type: 'opened', name: string, own: boolean}
 *   | {type: 'saved', file: Blob}
 *   | {type: 'error', about: 'text' | 'training' | 'files', message: string}} Report
 */

const SLICE = 40; // milliseconds of work between two looks at what the page wants
const WINDOW = 3000; // milliseconds over which speed is measured
const PAUSE = 1500; // milliseconds of training from one sample of writing to the next
const SAMPLE = 240; // characters of it
const PIECE = 600; // tokens that are written when somebody asks
const PIECE_TIME = 20_000; // milliseconds at most for them
const LEAST = 200; // characters of a text

/** @param {Report} report */
const tell = (report) => postMessage(report);

class Studio {
  step = 0;
  temperature = 0.8;
  /** What it does; whatever is under way ends when this is another object. @type {{kind: string}} */
  #work = { kind: 'idle' };
  /** The work that is under way. @type {Promise<void>} */
  #done = Promise.resolve();
  #seed = 1;
  #random = seeded(1);
  #alphabet = new Alphabet([]);
  #text = new Int32Array(0);
  /** @type {[number, number][]} times at which so many steps were done */
  #pace = [];
  #samples = 0;
  /** Weights and vocabulary that somebody brought, as far as they are there. @type {File[]} */
  #files = [];
  /** A model that somebody brought. @type {Writer | undefined} */
  #brought;

  /** @param {Executable} initial @param {Executable} trainer @param {Executable} own */
  constructor(initial, trainer, own) {
    this.initial = initial;
    this.trainer = trainer;
    this.own = own;
    const texts = trainer.parameters.find(({ name }) => name === 'texts');
    const [batch, length] = /** @type {import('../../manifest.js').Leaf} */ (texts).dimensions;
    this.batch = batch;
    this.length = length;
    this.names = own.parameters.filter(({ kind }) => kind === 'weight').map(({ name }) => name);
    this.texts = new Int32Array(this.batch * length);
  }

  /** Takes a text to learn from, and begins anew. @param {string} given */
  read(given) {
    const text = tidied(given);
    const alphabet = Alphabet.of(text, OWN.vocabulary);
    const tokens = Int32Array.from(alphabet.encode(text));
    if (tokens.length < LEAST)
      throw new RangeError(
        `The text has ${tokens.length} characters. Give at least ${LEAST}; it learns well from 20,000 on.`,
      );
    this.#alphabet = alphabet;
    this.#text = tokens;
    this.reset(this.#seed, [...text].length - tokens.length);
  }

  /** Random weights, moments of zero. @param {number} seed @param {number} [left] characters left out of the text */
  reset(seed, left = 0) {
    this.#seed = seed;
    const made = this.initial.run(Uint32Array.of(0, seed));
    this.#begin(Object.fromEntries(this.initial.results.map(({ name }, i) => [name, made[i]])));
    this.#random = seeded(seed);
    tell({ type: 'fresh', characters: this.#alphabet.characters.length, length: this.#text.length, left, step: 0 });
  }

  /** @param {Record<string, Float32Array>} weights by the names of the trainer's state */
  #begin(weights) {
    for (const { name, kind, bytes } of this.trainer.parameters) {
      if (kind === 'state') this.trainer.set(name, weights[name] ?? new Float32Array(bytes / 4));
    }
    this.step = 0;
    this.#samples = 0;
    this.#pace = [];
  }

  /** One step on pieces of the text that chance chooses; its loss. */
  #advance() {
    const { batch, length, texts } = this;
    for (let i = 0; i < batch; i++) {
      const at = Math.floor(this.#random() * Math.max(1, this.#text.length - length + 1));
      texts.set(this.#text.subarray(at, at + length), i * length);
    }
    const [loss] = this.trainer.run(texts, this.#alphabet.characters.length);
    this.step++;
    return loss[0];
  }

  /** Steps a second, of late. */
  #speed() {
    const now = performance.now();
    this.#pace.push([now, this.step]);
    while (this.#pace.length > 2 && now - this.#pace[1][0] > WINDOW) this.#pace.shift();
    const [begin, first] = this.#pace[0];
    return now > begin ? ((this.step - first) / (now - begin)) * 1000 : 0;
  }

  /** The writer with the weights of now. */
  #writer() {
    for (const name of this.names) this.own.set(name, this.trainer.get(name));
    return new Writer(this.own, this.#alphabet, this.#alphabet.characters.length);
  }

  /**
   * Ends what is under way, and begins something else.
   * @param {string} kind
   * @param {(isOn: () => boolean) => Promise<void>} [work]
   */
  begin(kind, work) {
    const own = (this.#work = { kind });
    const before = this.#done;
    this.#done = before
      .then(() => (own === this.#work ? work?.(() => own === this.#work) : undefined))
      .catch((error) => {
        tell({ type: 'error', about: 'training', message: /** @type {Error} */ (error).message });
      });
    return this.#done;
  }

  /** Trains, and writes a sample now and then. @param {() => boolean} isOn */
  async train(isOn) {
    this.#pace = [];
    this.#speed();
    let wrote = -Infinity;
    while (isOn()) {
      if (performance.now() - wrote > PAUSE) {
        const begin = performance.now();
        await this.#write(this.#writer(), '', SAMPLE, Infinity, isOn, this.#alphabet);
        wrote = performance.now();
        // Writing is no part of the speed of training.
        for (const mark of this.#pace) mark[0] += wrote - begin;
      }
      const begin = performance.now();
      const losses = [];
      do {
        const loss = this.#advance();
        if (!Number.isFinite(loss))
          throw new RangeError('The loss is no longer a number. Reset, and try another seed.');
        losses.push(loss);
      } while (performance.now() - begin < SLICE);
      const speed = this.#speed();
      tell({
        type: 'progress',
        step: this.step,
        losses: Float32Array.from(losses),
        speed,
        read: speed * this.batch * (this.length - 1),
      });
      await breathe();
    }
  }

  /** Writes as much as somebody wants to read at once. @param {string} prompt @param {() => boolean} isOn */
  async write(prompt, isOn) {
    const writer = this.#brought ?? this.#writer();
    await this.#write(writer, prompt, PIECE, PIECE_TIME, isOn, writer.vocabulary);
    // Unless something else is wanted by now.
    if (isOn()) tell({ type: 'paused' });
  }

  /**
   * @param {Writer} writer
   * @param {string} prompt
   * @param {number} count of tokens
   * @param {number} milliseconds
   * @param {() => boolean} isOn
   * @param {import('./alphabet.js').Vocabulary} vocabulary
   */
  async #write(writer, prompt, count, milliseconds, isOn, vocabulary) {
    writer.begin(prompt, this.#seed + this.#samples++);
    tell({ type: 'began', step: this.step, prompt });
    const end = performance.now() + milliseconds;
    let spent = 0;
    let done = 0;
    while (done < count && isOn() && performance.now() < end) {
      const begin = performance.now();
      const tokens = [];
      do tokens.push(writer.next(this.temperature));
      while (done + tokens.length < count && performance.now() - begin < SLICE);
      spent += performance.now() - begin;
      done += tokens.length;
      tell({ type: 'wrote', text: vocabulary.decode(tokens) });
      await breathe();
    }
    tell({
      type: 'written',
      step: this.step,
      speed: (done / spent) * 1000,
      unit: vocabulary instanceof Alphabet ? 'characters' : 'tokens',
    });
  }

  /** Looks at files, and runs the model that they are, once they are all there. @param {File[]} files */
  async open(files) {
    const weights =
      files.find(({ name }) => !/\.(json|txt)$/i.test(name)) ??
      this.#files.find(({ name }) => !/\.(json|txt)$/i.test(name));
    const others = [...this.#files, ...files].filter(({ name }) => /\.(json|txt)$/i.test(name));
    this.#files = others;
    if (!weights)
      throw new Error(
        'These are files of a vocabulary. Add the weights to them: model.safetensors, as GPT-2 small or DistilGPT-2 ' +
          'are published.',
      );
    const brought = await readWeights(weights);
    this.#files = [weights, ...others];
    const vocabulary = brought.alphabet ?? (await readVocabulary(others, brought.size));
    if (!vocabulary) throw new Error(lacking(brought.size));
    if (brought.size === OWN) {
      await this.#resume(brought.weights, /** @type {Alphabet} */ (brought.alphabet));
    } else {
      const exe = await load(builds(brought.size.module, import.meta.url), {
        weights: new Response(brought.weights),
        onProgress: ({ phase, loaded, total }) =>
          phase === 'weights' && total && tell({ type: 'loading', loaded, total }),
      });
      this.leave();
      this.#brought = new Writer(exe, vocabulary, brought.alphabet?.characters.length ?? brought.size.vocabulary);
    }
    this.#files = [];
    tell({ type: 'opened', name: brought.size.name, own: brought.size === OWN });
  }

  /** Goes on from weights that this page saved. @param {Blob} file @param {Alphabet} alphabet */
  async #resume(file, alphabet) {
    const data = await file.arrayBuffer();
    const length = Number(new DataView(data).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, length)));
    /** @type {Record<string, Float32Array>} */
    const weights = {};
    for (const name of this.names) {
      const {
        dtype,
        data_offsets: [from, to],
      } = header[name.slice('weights.'.length)];
      if (dtype !== 'F32') throw new Error(`Weights of this page are F32, and these are ${dtype}.`);
      weights[name] = new Float32Array(data.slice(8 + length + from, 8 + length + to));
    }
    const text = this.#alphabet.decode([...this.#text]);
    const tokens = Int32Array.from(alphabet.encode(text));
    if (tokens.length < LEAST)
      throw new Error(
        'These weights know other characters than the text has. Choose the text that they learnt from, and open ' +
          'them again.',
      );
    this.leave();
    this.#alphabet = alphabet;
    this.#text = tokens;
    this.#begin(weights);
    tell({
      type: 'fresh',
      characters: alphabet.characters.length,
      length: tokens.length,
      left: text.length - tokens.length,
      step: 0,
    });
  }

  /** Goes back from a model that was brought to the page's own. */
  leave() {
    this.#brought?.exe.dispose();
    this.#brought = undefined;
    this.#files = [];
  }

  save() {
    const weights = this.names.map((name) => [name.slice('weights.'.length), this.trainer.get(name)]);
    tell({ type: 'saved', file: saved(Object.fromEntries(weights), this.#alphabet) });
  }
}

/** @param {'text' | 'training' | 'files'} about @returns {(error: unknown) => void} */
const fail = (about) => (error) => tell({ type: 'error', about, message: /** @type {Error} */ (error).message });

/** @param {string} name */
const module = (name) => load(builds(name, import.meta.url));

async function start() {
  const [initial, trainer, own] = await Promise.all([module('initial'), module('step'), module('write')]);
  const studio = new Studio(initial, trainer, own);
  addEventListener('message', (/** @type {MessageEvent<Request>} */ { data }) => {
    if (data.type === 'temperature') studio.temperature = data.value;
    else if (data.type === 'run') studio.begin('training', (isOn) => studio.train(isOn));
    else if (data.type === 'write') studio.begin('writing', (isOn) => studio.write(data.prompt, isOn));
    else if (data.type === 'pause') studio.begin('idle');
    else if (data.type === 'text')
      studio.begin('idle', async () => {
        try {
          studio.read(data.text);
        } catch (error) {
          fail('text')(error);
        }
      });
    else if (data.type === 'reset') studio.begin('idle', async () => studio.reset(data.seed));
    else if (data.type === 'open') studio.begin('idle', () => studio.open(data.files).catch(fail('files')));
    else if (data.type === 'own') studio.begin('idle', async () => studio.leave());
    else studio.save();
  });
  const { memoryBytes, target } = trainer.manifest;
  tell({
    type: 'ready',
    bytes: fetchedBytes('step'),
    memory: memoryBytes,
    target,
    threads: globalThis.crossOriginIsolated ? navigator.hardwareConcurrency : 1,
  });
}

start().catch(fail('training'));
