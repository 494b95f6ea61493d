// Training on the page: the controls, the curves, and the worker that does the work.

import { Chart, LOSSES } from '../chart.js';
import { $, counted, percent, showError } from '../shared.js';
import { HELD_OUT, scaled } from './images.js';
import { drawImage } from './paint.js';

/** @typedef {import('../chart.js').Points} Points */
/** @typedef {import('./train_worker.js').Evaluation} Evaluation */
/** @typedef {import('./train_worker.js').Report} Report */

const SHOWN = 14; // of the images it gets wrong
const EPOCHS = { stride: 1, formatAt: (/** @type {number} */ at) => (at ? String(at) : 'epoch 0') };

export class TrainingPanel {
  /** @type {'loading' | 'fresh' | 'running' | 'paused' | 'done' | 'failed'} */
  #state = 'loading';
  /** @type {Points} */
  #losses = [];
  /** @type {Points} */
  #accuracies = [];
  /** @type {Evaluation | undefined} */
  #evaluation;
  #step = 0;
  #speed = 0;
  #stepsPerEpoch = 1;
  #batch = 1;
  #drawing = 0;
  /** A reset that the worker has not answered yet: what it reports until then is of the run before. */
  #resetting = false;
  #runAfterReset = false;

  /**
   * @param {object} page
   * @param {(weights: Record<string, Float32Array>, accuracy: number) => void} page.weights there are new weights
   * @param {() => void} page.started a person began a training
   * @param {(pixels: Uint8Array) => void} page.show a person wants to see an image
   */
  constructor(page) {
    this.page = page;
    this.loss = new Chart($('loss'), { ...LOSSES, ...EPOCHS, smoothing: 0.9 });
    this.accuracy = new Chart($('accuracy'), {
      ...EPOCHS,
      low: 0,
      high: 1,
      ticks: [0, 0.25, 0.5, 0.75, 1],
      format: (v) => `${100 * v} %`,
    });
    this.worker = new Worker(new URL('train_worker.js', import.meta.url), { type: 'module' });
    this.worker.addEventListener('message', ({ data }) => this.#hear(data));
    this.worker.addEventListener('error', (event) => this.#fail(event.message || 'its worker could not be loaded'));
    $('controls').addEventListener('submit', (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#go();
    });
    $('reset').addEventListener('click', () => this.#reset());
    for (const id of ['rate', 'epochs']) $(id).addEventListener('input', () => this.#changed());
    // A seed takes effect with the weights it makes.
    $('seed').addEventListener('change', () => this.#state === 'fresh' && this.#reset());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#update());
    this.#changed();
  }

  /** The accuracy of the shipped weights, for comparison. @param {number} accuracy */
  compare(accuracy) {
    this.accuracy.goal(accuracy, `shipped weights: ${percent(accuracy)}`);
  }

  /** @returns {import('./train_worker.js').Settings} */
  get settings() {
    return { rate: 0.001 * 2 ** $('rate').valueAsNumber, epochs: $('epochs').valueAsNumber };
  }

  get #total() {
    return this.settings.epochs * this.#stepsPerEpoch;
  }

  #changed() {
    const { rate, epochs } = this.settings;
    const shown = String(Number(rate.toPrecision(2)));
    $('rate-value').textContent = shown;
    $('rate').setAttribute('aria-valuetext', shown);
    $('epochs-value').textContent = epochs;
    if (this.#state !== 'loading') this.worker.postMessage({ type: 'settings', settings: this.settings });
    // More epochs than it has had: a finished training goes on.
    if (this.#state === 'done' && this.#step < this.#total) this.#state = 'paused';
    this.#schedule();
  }

  /** The large button: start, pause, go on, or start again. */
  #go() {
    if (this.#resetting) {
      this.#runAfterReset = true;
    } else if (this.#state === 'running') {
      this.worker.postMessage({ type: 'pause' });
      this.#state = 'paused';
      this.#say(`Paused after ${counted(this.#step, 'step')}`);
    } else if (this.#state === 'done') {
      if (this.#reset()) this.#runAfterReset = true;
    } else {
      this.worker.postMessage({ type: 'run', settings: this.settings });
      if (this.#state === 'fresh') this.page.started();
      this.#state = 'running';
      this.#say('Training');
    }
    this.#schedule();
  }

  #reset() {
    if (!$('controls').reportValidity()) return false;
    this.#resetting = true;
    this.worker.postMessage({ type: 'reset', seed: $('seed').valueAsNumber });
    return true;
  }

  /** @param {Report} report */
  #hear(report) {
    if (report.type === 'error') return this.#fail(report.message);
    if (report.type === 'ready') {
      this.#stepsPerEpoch = report.steps;
      this.#batch = report.batch;
      this.#reset();
    } else if (report.type === 'fresh') {
      this.#resetting = false;
      this.#state = 'fresh';
      this.#step = this.#speed = 0;
      this.#losses = [];
      this.#accuracies = [];
      $('training-error').hidden = true;
      this.#learn(report.evaluation);
      if (this.#runAfterReset) this.#go();
      this.#runAfterReset = false;
    } else if (!this.#resetting && this.#state !== 'failed') {
      const first = report.step - report.losses.length;
      report.losses.forEach((loss, i) => this.#losses.push([(first + i + 1) / this.#stepsPerEpoch, loss]));
      for (const evaluation of report.evaluations) this.#learn(evaluation);
      this.#step = report.step;
      if (this.#state === 'running') this.#speed = report.speed;
      if (report.state === 'done') {
        this.#state = 'done';
        this.#say(`Training is over. ${this.#describe()}`);
      }
    }
    this.#schedule();
  }

  /** @param {Evaluation} evaluation */
  #learn(evaluation) {
    this.#evaluation = evaluation;
    this.#accuracies.push([evaluation.step / this.#stepsPerEpoch, evaluation.accuracy]);
    this.page.weights(evaluation.weights, evaluation.accuracy);
  }

  /** @param {string} message */
  #fail(message) {
    this.#state = 'failed';
    showError('training-error', `The training stopped. ${message}`);
    this.#schedule();
  }

  /** @param {string} text */
  #say(text) {
    $('announce').textContent = text;
  }

  #describe() {
    const loss = this.loss.latest(this.#losses);
    return loss === undefined
      ? ''
      : `Loss ${loss.toFixed(2)}, held-out accuracy ${percent(this.#evaluation?.accuracy ?? 0)}`;
  }

  #schedule() {
    this.#drawing ||= requestAnimationFrame(() => {
      this.#drawing = 0;
      this.#update();
    });
  }

  #update() {
    const state = this.#state;
    const usable = state !== 'loading' && !(state === 'failed' && !this.#evaluation);
    $('start').textContent =
      { running: 'Pause', paused: 'Go on', done: 'Start again' }[/** @type {string} */ (state)] ?? 'Start';
    $('start').disabled = !usable || state === 'failed';
    $('reset').disabled = !usable || (state === 'fresh' && !this.#step);
    document.body.dataset.training = state;
    $('progress').value = Math.min(1, this.#step / this.#total);
    const epoch = Math.min(Math.floor(this.#step / this.#stepsPerEpoch), this.settings.epochs);
    const parts = [`Epoch <b>${epoch}</b> of ${this.settings.epochs}, ${counted(this.#step, 'step')}`];
    if (this.#speed)
      parts.push(
        `<b id="speed">${this.#speed.toFixed(0)}</b> steps a second, ` +
          `${Math.round(this.#speed * this.#batch).toLocaleString('en')} images`,
      );
    if (state === 'loading') $('status').textContent = 'Loading the training step';
    else if (state === 'fresh') $('status').textContent = 'Random weights, not trained yet';
    else $('status').innerHTML = parts.join('<br>');

    const loss = this.loss.latest(this.#losses);
    const accuracy = this.#evaluation?.accuracy;
    $('loss-value').textContent = loss === undefined ? '–' : loss.toFixed(3);
    $('accuracy-value').textContent = accuracy === undefined ? '–' : percent(accuracy);
    const end = Math.max(this.settings.epochs, this.#step / this.#stepsPerEpoch);
    const first = this.#losses[0]?.[1];
    const fell =
      first === undefined || loss === undefined
        ? 'no values yet'
        : `from ${first.toFixed(2)} to ${loss.toFixed(2)} after ${counted(this.#step, 'step')}`;
    this.loss.show([{ name: 'loss', points: this.#losses }], end, `Loss: ${fell}`);
    const start = this.#accuracies[0]?.[1];
    const rose =
      start === undefined || accuracy === undefined
        ? 'no values yet'
        : `from ${percent(start)} to ${percent(accuracy)}`;
    this.accuracy.show([{ name: 'accuracy', points: this.#accuracies }], end, `Accuracy on held-out images: ${rose}`);
    this.#drawTable();
    if (this.#evaluation) this.#drawInside(this.#evaluation);
  }

  /** A row for each epoch that is over. */
  #drawTable() {
    const rows = [];
    for (const [epoch, accuracy] of this.#accuracies) {
      if (!Number.isInteger(epoch) || !epoch) continue;
      const losses = this.#losses.slice((epoch - 1) * this.#stepsPerEpoch, epoch * this.#stepsPerEpoch);
      const mean = losses.reduce((sum, [, loss]) => sum + loss, 0) / losses.length;
      rows.push([String(epoch), mean.toFixed(3), percent(accuracy)]);
    }
    const body = $('rows');
    if (rows.length < body.rows.length) body.replaceChildren();
    for (const cells of rows.slice(body.rows.length)) {
      const row = body.insertRow();
      for (const cell of cells) row.insertCell().textContent = cell;
    }
  }

  /** @type {Evaluation | undefined} */
  #drawn;
  #dark = false;

  /** @param {Evaluation} evaluation */
  #drawInside(evaluation) {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    if (evaluation === this.#drawn && dark === this.#dark) return;
    this.#drawn = evaluation;
    this.#dark = dark;
    drawFilters($('filters'), evaluation.weights['params.conv1']);
    const { misses } = evaluation;
    $('wrong-title').textContent = `Held-out images it gets wrong: ${misses.length} of ${HELD_OUT}`;
    const none = document.createElement('p');
    none.textContent = `None: every one of the ${HELD_OUT} is right.`;
    $('wrong').replaceChildren(...(misses.length ? [] : [none]));
    for (const miss of misses.slice(0, SHOWN)) this.#addTile(miss);
  }

  /** @param {import('./images.js').Miss} miss */
  #addTile({ label, said, pixels }) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'miss';
    button.ariaLabel = `${label} as ${said}: show the ${label} that it takes for a ${said}`;
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 8;
    const caption = document.createElement('span');
    caption.textContent = `${label} as ${said}`;
    button.append(canvas, caption);
    button.addEventListener('click', () => this.page.show(pixels));
    $('wrong').append(button);
    drawImage(canvas, scaled(pixels));
  }
}

/**
 * The filters f32[3,3,1,16] as two rows of eight: accent where they want ink, the second colour where they want none.
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} weights
 */
function drawFilters(canvas, weights) {
  canvas.width = 31;
  canvas.height = 7;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const style = getComputedStyle(document.documentElement);
  const colours = [style.getPropertyValue('--second'), style.getPropertyValue('--accent')];
  const most = Math.max(...weights.map(Math.abs));
  for (let filter = 0; filter < 16; filter++) {
    const left = (filter % 8) * 4;
    const top = filter < 8 ? 0 : 4;
    context.globalAlpha = 1;
    context.fillStyle = style.getPropertyValue('--well');
    context.fillRect(left, top, 3, 3);
    for (let cell = 0; cell < 9; cell++) {
      const value = weights[cell * 16 + filter];
      context.fillStyle = colours[Number(value > 0)];
      context.globalAlpha = Math.abs(value) / most;
      context.fillRect(left + (cell % 3), top + Math.floor(cell / 3), 1, 1);
    }
  }
}
