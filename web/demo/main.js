// The page: what is drawn goes through preprocess.js to the compiled model, and its ten numbers become bars.

import { load } from '../xla_wasm.js';
import { Pad, paint } from './pad.js';
import { toImage } from './preprocess.js';
import { samples } from './samples.js';

const BUDGET = 1; // milliseconds of each frame that may go into timing the model

/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
const bars = Array.from({ length: 10 }, (_, digit) => addBar(digit));
const pictures = samples.map(({ pixels }) => Float32Array.from(pixels, (grey) => parseInt(grey, 17) / 16));
const pad = new Pad($('pad'), () => {
  select(-1);
  schedule();
});

/** @type {import('../xla_wasm.js').Executable | undefined} */
let model;
/** @type {Float32Array | null} the sample shown */
let shown = null;
let scheduled = 0;
let announce = 0;

/** @param {number} digit */
function addBar(digit) {
  const item = document.createElement('li');
  item.innerHTML = `<span class="name">${digit}</span><span class="track"><span class="fill"></span></span><span class="value"></span>`;
  $('bars').append(item);
  return { item, fill: /** @type {HTMLElement} */ (item.querySelector('.fill')), value: /** @type {HTMLElement} */ (item.querySelector('.value')) };
}

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

/** @param {Float32Array} logits */
function softmax(logits) {
  const most = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

/**
 * @param {number[] | null} probabilities
 * @param {number} microseconds
 */
function present(probabilities, microseconds) {
  const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
  bars.forEach(({ item, fill, value }, digit) => {
    const p = probabilities?.[digit] ?? 0;
    item.classList.toggle('best', digit === best);
    fill.style.transform = `translateX(${100 * (p - 1)}%)`;
    value.textContent = probabilities ? percent(p) : '';
  });
  const sure = probabilities ? probabilities[best] : 0;
  document.body.classList.toggle('known', best >= 0);
  document.body.dataset.answer = best < 0 ? '' : String(best);
  $('digit').textContent = best < 0 ? '–' : best;
  const says = best < 0 ? 'Waiting for a digit' : sure > 0.9 ? `That is a ${best}` : sure > 0.5 ? `Probably a ${best}` : `Perhaps a ${best}`;
  $('says').textContent = says;
  if (best < 0) $('time').innerHTML = '&nbsp;';
  else $('time').innerHTML = `answered in <strong>${microseconds < 100 ? microseconds.toFixed(1) : microseconds.toFixed(0)} µs</strong>`;
  // Spoken when the hand rests, not at every move.
  clearTimeout(announce);
  if (best >= 0) announce = setTimeout(() => ($('live').textContent = `${says}, ${percent(sure)}`), 700);
}

/** @param {number} p */
const percent = (p) => (p > 0.9995 ? '100 %' : p < 0.0005 ? '0 %' : `${(100 * p).toFixed(1)} %`);

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

/** Shows a sample; -1 shows none. @param {number} index */
function select(index) {
  shown = index < 0 ? null : pictures[index];
  [...$('samples').children].forEach((button, i) => button.setAttribute('aria-pressed', String(i === index)));
}

/** @param {number} index */
function useSample(index) {
  pad.show(pictures[index]);
  select(index);
  schedule();
}

function clear() {
  pad.clear();
  select(-1);
  schedule();
}

function addSamples() {
  samples.forEach(({ label }, index) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.ariaLabel = `Sample image of a ${label}`;
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 8;
    button.append(canvas);
    button.addEventListener('click', () => useSample(index));
    $('samples').append(button);
  });
  drawSamples();
}

function drawSamples() {
  [...$('samples').querySelectorAll('canvas')].forEach((canvas, index) => drawImage(canvas, pictures[index]));
}

addSamples();
select(-1);
present(null, 0);
$('clear').addEventListener('click', clear);
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape' || event.key === 'Delete') clear();
  else if (/^[0-9]$/.test(event.key)) useSample(samples.findIndex(({ label }) => label === Number(event.key)));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  drawSamples();
  schedule();
});

try {
  model = await load({ simd128: 'digits.wasm', 'relaxed-simd': 'digits.relaxed.wasm' });
  showFacts(model);
  document.body.dataset.ready = 'true';
  schedule();
} catch (error) {
  $('error').textContent = `The model could not be loaded. ${/** @type {Error} */ (error).message}`;
  $('error').hidden = false;
}

/** @param {import('../xla_wasm.js').Executable} executable */
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
