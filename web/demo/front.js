// The front page: its numbers are those of the digits model, which it loads and runs on one held-out image after
// another.

import './isolation.js';
import { load } from '../xla_wasm.js';
import { drawImage } from './digits/paint.js';
import { pictures } from './digits/samples.js';
import { softmax } from './digits/softmax.js';
import { $, builds, coloured, fetchedBytes, microseconds, showError } from './shared.js';

const PAUSE = 1600; // milliseconds for each image
const WORDS = /(?<note>#.*|\/\/.*)|(?<string>"[^"]*")|\b(?<word>import|from|as|def|return|const|await)\b/g;

const still = matchMedia('(prefers-reduced-motion: reduce)');
const bars = Array.from({ length: 10 }, () => $('bars').appendChild(document.createElement('i')));

/**
 * @param {import('../xla_wasm.js').Executable} model
 * @param {number} index
 */
function show(model, index) {
  const image = pictures[index];
  const [logits] = model.run(image);
  const shares = softmax(logits);
  drawImage($('sample'), image);
  $('read').textContent = shares.indexOf(Math.max(...shares));
  bars.forEach((bar, digit) => (bar.style.height = `${100 * shares[digit]}%`));
}

/** Shows the links that the package was published with. */
async function link() {
  const answer = await fetch('links.json');
  for (const [name, url] of Object.entries(answer.ok ? await answer.json() : {})) {
    const item = $(name.toLowerCase());
    if (!item) continue;
    item.querySelector('a').href = url;
    item.hidden = false;
  }
}

link().catch(() => {});
for (const id of ['python', 'javascript']) $(id).replaceChildren(...coloured($(id).textContent, WORDS));
try {
  const model = await load(builds('digits/digits', import.meta.url));
  const bytes = fetchedBytes('digits');
  if (bytes) $('size').textContent = `${(bytes / 1024).toFixed(0)} KB`;
  $('time').textContent = `${microseconds(() => model.run(pictures[0]), 5, 200).toFixed(0)} µs`;
  let index = 2;
  show(model, index);
  setInterval(() => {
    if (!still.matches && !document.hidden) show(model, (index = (index + 3) % pictures.length));
  }, PAUSE);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show(model, index));
  document.body.dataset.ready = 'true';
} catch (error) {
  showError('error', `The model could not be loaded. ${/** @type {Error} */ (error).message}`);
}
