// Trains the digits model, off the page's own thread. Three compiled modules do the work: `initial` makes random
// weights of a seed, `step` is one step of the optimiser and keeps weights and moments as its state, `classify` judges
// the held-out images with the weights of `step`.

import { load } from '../../xla_wasm.js';
import { breathe, builds, seeded } from '../shared.js';
import { PIXELS, TRAINING, judge, loadImages } from './images.js';

const BATCH = 64;
const STEPS = Math.floor(TRAINING / BATCH); // of an epoch; what is left over comes up in another order next time
const EVALUATE = STEPS / 2;
const SLICE = 30; // milliseconds of work between two looks at what the page wants
const WINDOW = 1500; // milliseconds over which speed is measured

/**
 * @typedef {{rate: number, epochs: number}} Settings
 * @typedef {object} Evaluation
 * @property {number} step
 * @property {number} accuracy
 * @property {import('./images.js').Miss[]} misses
 * @property {Record<string, Float32Array>} weights
 *
 * @typedef {{type: 'settings' | 'run', settings: Settings} | {type: 'pause'} | {type: 'reset', seed: number}} Request
 * @typedef {{type: 'ready', steps: number, batch: number}
 *   | {type: 'progress', step: number, losses: Float32Array, speed: number, state: 'running' | 'paused' | 'done',
 *     evaluations: Evaluation[]}
 *   | {type: 'fresh', evaluation: Evaluation}
 *   | {type: 'error', message: string}} Report
 */

/** @param {string} name */
const module = (name) => load(builds(name, import.meta.url));

/** @param {Report} report */
const tell = (report) => postMessage(report);

class Training {
  step = 0;
  running = false;
  /** @type {Settings} */
  settings = { rate: 0, epochs: 1 };
  #order = Uint16Array.from({ length: TRAINING }, (_, i) => i);
  #random = seeded(0);
  #pixels = new Uint8Array(BATCH * PIXELS);
  #labels = new Uint8Array(BATCH);
  /** @type {[number, number][]} times at which so many steps were done */
  #pace = [];

  /**
   * @param {import('../../xla_wasm.js').Executable} initial
   * @param {import('../../xla_wasm.js').Executable} trainer
   * @param {import('../../xla_wasm.js').Executable} classifier
   * @param {import('./images.js').Images} images
   */
  constructor(initial, trainer, classifier, images) {
    this.initial = initial;
    this.trainer = trainer;
    this.classifier = classifier;
    this.images = images;
    this.names = classifier.parameters.filter(({ kind }) => kind === 'weight').map(({ name }) => name);
  }

  /** Random weights, moments of zero. @param {number} seed */
  reset(seed) {
    const { trainer, initial } = this;
    const key = Uint32Array.of(0, seed);
    const weights = initial.run(key);
    for (const { name, kind, bytes } of trainer.parameters) {
      if (kind === 'state' && name !== 'key') trainer.set(name, new Float32Array(bytes / 4));
    }
    initial.results.forEach(({ name }, i) => trainer.set(name, weights[i]));
    trainer.set('key', key);
    this.#random = seeded(seed);
    this.#order.sort();
    this.step = 0;
    this.#pace = [];
  }

  get total() {
    return this.settings.epochs * STEPS;
  }

  /** One step on the next 64 images; its loss. */
  advance() {
    const at = this.step % STEPS;
    if (at === 0) this.#shuffle();
    const { pixels, labels } = this.images;
    this.#order.subarray(at * BATCH, (at + 1) * BATCH).forEach((image, i) => {
      this.#pixels.set(pixels.subarray(image * PIXELS, (image + 1) * PIXELS), i * PIXELS);
      this.#labels[i] = labels[image];
    });
    // From the rate that was asked for down to zero, along half a cosine.
    const rate = this.settings.rate * 0.5 * (1 + Math.cos((Math.PI * this.step) / this.total));
    const [loss] = this.trainer.run(this.#pixels, this.#labels, rate);
    this.step++;
    return loss[0];
  }

  #shuffle() {
    const order = this.#order;
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(this.#random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
  }

  /**
   * Every held-out image, through the module that the page classifies with.
   * @returns {Evaluation}
   */
  evaluate() {
    const { classifier, trainer } = this;
    /** @type {Record<string, Float32Array>} */
    const weights = {};
    for (const name of this.names) classifier.set(name, (weights[name] = trainer.get(name)));
    return { step: this.step, ...judge(this.images, classifier), weights };
  }

  /** Steps a second, of late. */
  speed() {
    const now = performance.now();
    this.#pace.push([now, this.step]);
    while (this.#pace.length > 2 && now - this.#pace[1][0] > WINDOW) this.#pace.shift();
    const [begin, first] = this.#pace[0];
    return now > begin ? ((this.step - first) / (now - begin)) * 1000 : 0;
  }

  /** Runs until it is done or told to pause. */
  async run() {
    this.running = true;
    this.#pace = [];
    this.speed();
    while (this.running) {
      const begin = performance.now();
      const losses = [];
      const evaluations = [];
      while (this.step < this.total && performance.now() - begin < SLICE) {
        const loss = this.advance();
        if (!Number.isFinite(loss))
          throw new RangeError(
            'The loss is no longer a number: the learning rate is too high. Reset, and try a lower one.',
          );
        losses.push(loss);
        if (this.step % EVALUATE === 0) evaluations.push(this.evaluate());
      }
      if (this.step >= this.total) this.running = false;
      tell({
        type: 'progress',
        step: this.step,
        losses: Float32Array.from(losses),
        speed: this.speed(),
        state: this.running ? 'running' : 'done',
        evaluations,
      });
      await breathe();
    }
  }
}

/** @param {unknown} error */
const fail = (error) => tell({ type: 'error', message: /** @type {Error} */ (error).message });

async function begin() {
  const images = loadImages(new URL('images.bin', import.meta.url));
  const training = new Training(await module('initial'), await module('step'), await module('classify'), await images);
  addEventListener('message', (/** @type {MessageEvent<Request>} */ { data }) => {
    try {
      if (data.type === 'pause') {
        training.running = false;
      } else if (data.type === 'reset') {
        training.running = false;
        training.reset(data.seed);
        tell({ type: 'fresh', evaluation: training.evaluate() });
      } else {
        training.settings = data.settings;
        if (data.type === 'run' && !training.running) training.run().catch(fail);
      }
    } catch (error) {
      fail(error);
    }
  });
  tell({ type: 'ready', steps: STEPS, batch: BATCH });
}

begin().catch(fail);
