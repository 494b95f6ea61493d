// The front page: its numbers are those of the digits model, which it loads and runs on one held-out image after another.

import { load } from '../xla_wasm.js';
import { softmax } from './digits/softmax.js';
import { paint } from './digits/pad.js';
import { samples } from './digits/samples.js';

const PAUSE = 1600; // milliseconds for each image
const RUNS = 200;

/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
const still = matchMedia('(prefers-reduced-motion: reduce)');
const bars = Array.from({ length: 10 }, () => $('bars').appendChild(document.createElement('i')));

/** Words, strings and remarks of a program, told apart by colour. @param {HTMLElement} code */
function colour(code) {
  const pattern = /(?<remark>#.*|\/\/.*)|(?<string>"[^"]*")|\b(?<word>import|from|as|def|return|const|await)\b/g;
  const text = code.textContent ?? '';
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [name, found] = Object.entries(match.groups ?? {}).find(([, value]) => value) ?? ['', match[0]];
    const span = document.createElement('span');
    span.className = name;
    span.textContent = found ?? '';
    parts.push(text.slice(end, match.index), span);
    end = match.index + match[0].length;
  }
  code.replaceChildren(...parts, text.slice(end));
}

/**
 * @param {import('../xla_wasm.js').Executable} model
 * @param {number} index
 */
function show(model, index) {
  const image = Float32Array.from(samples[index].pixels, (grey) => parseInt(grey, 17) / 16);
  const [logits] = model.run(image);
  const shares = softmax(logits);
  const context = /** @type {CanvasRenderingContext2D} */ ($('sample').getContext('2d'));
  context.clearRect(0, 0, 8, 8);
  context.fillStyle = getComputedStyle($('sample')).color;
  paint(context, image, 0, 1);
  $('read').textContent = shares.indexOf(Math.max(...shares));
  bars.forEach((bar, digit) => (bar.style.height = `${100 * shares[digit]}%`));
}

/** Microseconds of a run: the least of many, since a page is never alone. @param {import('../xla_wasm.js').Executable} model */
function time(model) {
  const image = new Float32Array(64);
  let least = Infinity;
  for (let round = 0; round < 5; round++) {
    const begin = performance.now();
    for (let i = 0; i < RUNS; i++) model.run(image);
    least = Math.min(least, ((performance.now() - begin) / RUNS) * 1000);
  }
  return least;
}

for (const id of ['python', 'javascript']) colour($(id));
try {
  const model = await load({ simd128: 'digits/digits.wasm', 'relaxed-simd': 'digits/digits.relaxed.wasm' });
  const file = /** @type {PerformanceResourceTiming | undefined} */ (performance.getEntriesByType('resource').find(({ name }) => /\/digits[^/]*\.wasm$/.test(name)));
  if (file?.decodedBodySize) $('size').textContent = `${(file.decodedBodySize / 1024).toFixed(0)} KB`;
  $('time').textContent = `${time(model).toFixed(0)} µs`;
  let index = 2;
  show(model, index);
  setInterval(() => {
    if (!still.matches && !document.hidden) show(model, (index = (index + 3) % samples.length));
  }, PAUSE);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show(model, index));
  document.body.dataset.ready = 'true';
} catch (error) {
  $('error').textContent = `The model could not be loaded. ${/** @type {Error} */ (error).message}`;
  $('error').hidden = false;
}
