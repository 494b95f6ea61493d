// The page: what is drawn goes through preprocess.js to a compiled model, and its ten numbers become bars. training.js makes weights of
// its own; a switch says whether the model with the shipped weights answers or the one that takes these.

import { load } from '../../xla_wasm.js';
import { percent, present } from './answer.js';
import { HELD_OUT, TRAINING, imageAt, loadImages } from './images.js';
import { Pad, paint } from './pad.js';
import { toImage } from './preprocess.js';
import { samples } from './samples.js';
import { softmax } from './softmax.js';
import { TrainingPanel } from './training.js';

/** @typedef {import('../../xla_wasm.js').Executable} Executable */

const BUDGET = 1; // milliseconds of each frame that may go into timing the model

/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
const pictures = samples.map(({ pixels }) => Float32Array.from(pixels, (grey) => parseInt(grey, 17) / 16));
const pad = new Pad($('pad'), () => {
  select(null);
  schedule();
});
/** @type {HTMLInputElement[]} */
const choices = [...document.querySelectorAll('input[name=weights]')].map((input) => /** @type {HTMLInputElement} */ (input));

/** @type {Record<string, Executable>} the models by the values of the switch */
const models = {};
/** @type {Float32Array | null} the image shown in place of a drawing */
let shown = null;
let scheduled = 0;

const chosen = () => choices.find((input) => input.checked)?.value ?? 'shipped';

/** Looks at the drawing once before the next frame, however often it changed. */
function schedule() {
  if (!scheduled) scheduled = requestAnimationFrame(update);
}

function update() {
  scheduled = 0;
  const empty = !shown && !pad.strokes.length;
  $('hint').hidden = !empty;
  const image = shown ?? toImage(pad.strokes);
  drawImage($('image'), image);
  const model = models[chosen()];
  if (empty || !model) return present(null, 0);
  let runs = 0;
  let logits = new Float32Array(10);
  // One run is over before the clock ticks: as many as fit the budget give its time.
  const begin = performance.now();
  let spent = 0;
  do {
    [logits] = model.run(image);
    runs++;
    spent = performance.now() - begin;
  } while (spent < BUDGET);
  present(softmax(logits), (spent / runs) * 1000);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} image
 */
function drawImage(canvas, image) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.clearRect(0, 0, 8, 8);
  context.fillStyle = getComputedStyle(canvas).color;
  paint(context, image, 0, 1);
}

/** Marks the sample that is shown; null: none is. @param {Float32Array | null} image */
function select(image) {
  shown = image;
  [...$('samples').children].forEach((button, i) => button.setAttribute('aria-pressed', String(pictures[i] === image)));
}

/** @param {Float32Array} image */
function show(image) {
  pad.show(image);
  select(image);
  schedule();
}

function clear() {
  pad.clear();
  select(null);
  schedule();
}

function addSamples() {
  samples.forEach(({ label }, index) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'tile';
    button.ariaLabel = `Sample image of a ${label}`;
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 8;
    button.append(canvas);
    button.addEventListener('click', () => show(pictures[index]));
    $('samples').append(button);
  });
  drawSamples();
}

function drawSamples() {
  [...$('samples').querySelectorAll('canvas')].forEach((canvas, index) => drawImage(canvas, pictures[index]));
}

/** @param {string} value */
function choose(value) {
  for (const input of choices) input.checked = input.value === value;
  schedule();
}

addSamples();
select(null);
present(null, 0);
$('clear').addEventListener('click', clear);
for (const input of choices) input.addEventListener('change', schedule);
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  // Digits typed into a field are the field's.
  const typing = event.target instanceof HTMLInputElement && event.target.type === 'number';
  if (event.key === 'Escape' || (event.key === 'Delete' && !typing)) clear();
  else if (/^[0-9]$/.test(event.key) && !typing) show(pictures[samples.findIndex(({ label }) => label === Number(event.key))]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  drawSamples();
  schedule();
});

/** @param {string} name */
const model = (name) => load({ simd128: new URL(`${name}.wasm`, import.meta.url), 'relaxed-simd': new URL(`${name}.relaxed.wasm`, import.meta.url) });

try {
  models.shipped = await model('digits');
  showFacts(models.shipped);
  document.body.dataset.ready = 'true';
  schedule();
  await startTraining(models.shipped);
} catch (error) {
  $('error').textContent = `The model could not be loaded. ${/** @type {Error} */ (error).message}`;
  $('error').hidden = false;
}

/** @param {Executable} shipped */
async function startTraining(shipped) {
  const trained = await model('classify');
  const panel = new TrainingPanel({
    weights(weights, accuracy) {
      for (const [name, values] of Object.entries(weights)) trained.set(name, values);
      models.trained = trained;
      for (const input of choices) input.disabled = false;
      $('trained-label').textContent = `Trained here: ${percent(accuracy)}`;
      if (chosen() === 'trained') schedule();
    },
    started: () => choose('trained'),
    show: (pixels) => {
      show(Float32Array.from(pixels, (grey) => grey / 16));
      $('pad').scrollIntoView({ block: 'center' });
    },
  });
  const { pixels, labels } = await loadImages(new URL('images.bin', import.meta.url));
  let right = 0;
  for (let index = TRAINING; index < TRAINING + HELD_OUT; index++) {
    const [logits] = shipped.run(imageAt(pixels, index));
    right += Number(logits.indexOf(Math.max(...logits)) === labels[index]);
  }
  panel.compare(right / HELD_OUT);
  $('shipped-label').textContent = `Shipped: ${percent(right / HELD_OUT)}`;
}

/** @param {Executable} executable */
function showFacts({ manifest }) {
  const file = /** @type {PerformanceResourceTiming | undefined} */ (performance.getEntriesByType('resource').find(({ name }) => /\/digits[^/]*\.wasm$/.test(name)));
  const facts = [
    ['File size', file?.decodedBodySize ? `${(file.decodedBodySize / 1024).toFixed(1)} KB` : '–'],
    ['Imports', 'none'],
    ['Steps', String(manifest.steps.length)],
    ['Memory', `${manifest.memoryBytes / 1024} KB`],
    ['Instructions', manifest.target],
  ];
  for (const [name, value] of facts) {
    const cell = document.createElement('div');
    const term = document.createElement('dt');
    const detail = document.createElement('dd');
    term.textContent = name;
    detail.textContent = value;
    cell.append(term, detail);
    $('facts').append(cell);
  }
}
