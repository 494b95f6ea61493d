// The page: what is drawn goes through preprocess.js to a compiled model, and its ten numbers become bars. training.js
// makes weights of its own; a switch says whether the model with the shipped weights answers or the one that takes
// these.

import '../isolation.js';
import { load } from '../../xla_wasm.js';
import { $, builds, chosen, fetchedBytes, microseconds, percent, radios, showError, showFacts } from '../shared.js';
import { present } from './answer.js';
import { judge, loadImages, scaled } from './images.js';
import { Pad } from './pad.js';
import { drawImage } from './paint.js';
import { toImage } from './preprocess.js';
import { pictures, samples } from './samples.js';
import { softmax } from './softmax.js';
import { TrainingPanel } from './training.js';

/** @typedef {import('../../xla_wasm.js').Executable} Executable */

const pad = new Pad($('pad'), () => {
  select(null);
  schedule();
});
const choices = radios('weights');

/** @type {Record<string, Executable>} the models by the values of the switch */
const models = {};
/** @type {Float32Array | null} the image shown in place of a drawing */
let shown = null;
let scheduled = 0;

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
  const model = models[chosen('weights')];
  if (empty || !model) return present(null, 0);
  const [logits] = model.run(image);
  present(
    softmax(logits),
    microseconds(() => model.run(image), 4, 25),
  );
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
  else if (/^[0-9]$/.test(event.key) && !typing)
    show(pictures[samples.findIndex(({ label }) => label === Number(event.key))]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  drawSamples();
  schedule();
});

/** A model, warmed up: the browser has optimised its code when it is asked first. @param {string} name */
async function warmed(name) {
  const model = await load(builds(name, import.meta.url));
  for (const { name: weight, kind, bytes } of model.parameters)
    if (kind === 'weight') model.set(weight, new Float32Array(bytes / 4));
  microseconds(() => model.run(pictures[0]), 5, 200);
  return model;
}

try {
  models.shipped = await warmed('digits');
  const { steps, memoryBytes, target } = models.shipped.manifest;
  const bytes = fetchedBytes('digits');
  showFacts({
    'File size': bytes ? `${(bytes / 1024).toFixed(1)} KB` : '–',
    Imports: 'none',
    Steps: String(steps.length),
    Memory: `${memoryBytes / 1024} KB`,
    Instructions: target,
  });
  document.body.dataset.ready = 'true';
  schedule();
  await startTraining(models.shipped);
} catch (error) {
  showError('error', `The model could not be loaded. ${/** @type {Error} */ (error).message}`);
}

/** @param {Executable} shipped */
async function startTraining(shipped) {
  const trained = await warmed('classify');
  const panel = new TrainingPanel({
    weights(weights, accuracy) {
      for (const [name, values] of Object.entries(weights)) trained.set(name, values);
      models.trained = trained;
      for (const input of choices) input.disabled = false;
      $('trained-label').textContent = `Trained here: ${percent(accuracy)}`;
      if (chosen('weights') === 'trained') schedule();
    },
    started: () => choose('trained'),
    show: (pixels) => {
      show(scaled(pixels));
      $('pad').scrollIntoView({ block: 'center' });
    },
  });
  const { accuracy } = judge(await loadImages(new URL('images.bin', import.meta.url)), shipped);
  panel.compare(accuracy);
  $('shipped-label').textContent = `Shipped: ${percent(accuracy)}`;
}
