// Workers that train one model together: each has all the weights and its part of every batch.

import { PIXELS, TRAINING } from '../digits/images.js';
import { lengthOf, loadStep } from './programs.js';

/** @typedef {import('../digits/images.js').Images} Images */
/** @typedef {Record<string, Float32Array>} Weights */

export const BATCH = 128;
const RATE = 0.05;
const NOBODY = 255; // the label of a row that is no image, where the batch does not split evenly
const WARM = 3;

export class Team {
  step = 0;
  /** Milliseconds of all steps. */
  spent = 0;
  /** @type {[number, number][]} seconds after which a loss was reached, and the loss */
  losses = [];
  /** @type {Float64Array} milliseconds that each worker spent in exchanges */
  exchanging;
  /** Steps after which the weights were compared, and whether all were the same each time. */
  checks = { count: 0, same: true };
  /** @type {string[]} of the weights of each worker, when they were last compared */
  fingerprints = [];

  /**
   * Use `make`.
   * @param {import('./programs.js').Group} group
   * @param {Images} images
   */
  constructor(group, images) {
    this.group = group;
    this.images = images;
    this.count = group.devices.count;
    this.exchanging = new Float64Array(this.count);
    this.names = group.parameters
      .filter(({ kind, name }) => kind === 'state' && name.startsWith('params.'))
      .map(({ name }) => name);
    const rows = lengthOf(group, 'pixels');
    /** @type {[Uint8Array, Uint8Array, number][]} what each worker is given */
    this.parts = Array.from({ length: this.count }, () => [new Uint8Array(rows * PIXELS), new Uint8Array(rows), RATE]);
  }

  /**
   * @param {import('./programs.js').Setup} setup
   * @param {Images} images
   * @param {Weights} weights to begin with
   */
  static async make(setup, images, weights) {
    /** @type {Team | undefined} */
    let team;
    const group = await loadStep(setup, ({ device, milliseconds }) => {
      if (team) team.exchanging[device] += milliseconds;
    });
    try {
      team = new Team(group, images);
      // The engine compiles what it sees run once more, and better.
      for (let i = 0; i < WARM; i++) await team.advance();
      await team.begin(weights);
      return team;
    } catch (error) {
      group.dispose();
      throw error;
    }
  }

  /** As it was before the first step. @param {Weights} weights */
  async begin(weights) {
    for (const { name, kind, bytes } of this.group.parameters) {
      if (kind === 'state') await this.group.set(name, weights[name] ?? new Float32Array(bytes / 4));
    }
    this.step = this.spent = 0;
    this.losses = [];
    this.exchanging.fill(0);
    this.checks = { count: 0, same: true };
    this.fingerprints = [];
  }

  /** One step on the next images. */
  async advance() {
    this.#deal();
    const begin = performance.now();
    const [[loss]] = await this.group.runReplicated(this.parts);
    this.spent += performance.now() - begin;
    this.step++;
    this.losses.push([this.spent / 1000, loss[0]]);
    if (!Number.isFinite(loss[0])) throw new RangeError(`the loss is no number after step ${this.step}`);
  }

  /** Gives each worker its part of the next batch. The images go round and round in the order of their file. */
  #deal() {
    const { pixels, labels } = this.images;
    this.parts.forEach(([own, answers], part) => {
      const rows = answers.length;
      for (let row = 0; row < rows; row++) {
        const place = part * rows + row;
        const image = (this.step * BATCH + place) % TRAINING;
        const isThere = place < BATCH;
        if (isThere) own.set(pixels.subarray(image * PIXELS, (image + 1) * PIXELS), row * PIXELS);
        else own.fill(0, row * PIXELS, (row + 1) * PIXELS);
        answers[row] = isThere ? labels[image] : NOBODY;
      }
    });
  }

  /**
   * Compares the weights of all workers, bit by bit.
   * @returns {Promise<Weights>} those of the first
   */
  async compare() {
    const all = [];
    for (let device = 0; device < this.count; device++) {
      /** @type {Weights} */
      const weights = {};
      for (const name of this.names) weights[name] = await this.group.get(name, device);
      all.push(weights);
    }
    const bits = all.map((weights) => this.names.map((name) => new Uint32Array(weights[name].buffer)));
    const [first] = bits;
    const same = bits.every((arrays) => arrays.every((array, i) => array.every((word, j) => word === first[i][j])));
    this.checks = { count: this.checks.count + 1, same: this.checks.same && same };
    this.fingerprints = bits.map(fingerprint);
    return all[0];
  }

  dispose() {
    this.group.dispose();
  }
}

/** Eight hexadecimal digits of all words: FNV-1a, word by word. @param {Uint32Array[]} arrays */
function fingerprint(arrays) {
  let hash = 0x811c9dc5;
  for (const array of arrays) for (const word of array) hash = Math.imul(hash ^ word, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}
