// The page: what is typed goes to worker.js, and what comes back is shown as a ranking.

import '../isolation.js';
import { $, counted, showError, showFacts } from '../shared.js';
import { split } from './split.js';

const PAUSE = 40; // milliseconds without a key before a query is sent
const MOST = 2000; // sentences that a person may bring

const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1);

/** @type {string[]} what is searched in */
let sentences = [];
/** @type {string[]} what comes with the page */
let own = [];
let received = 0;
let number = 0;
let pause = 0;
let spoken = 0;
const rows = Array.from({ length: 12 }, addRow);

const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
worker.onmessage = (/** @type {MessageEvent} */ { data }) => handlers[data.kind](data);
worker.onerror = (/** @type {ErrorEvent} */ event) => fail(event.message || 'The worker could not be started.');

/** @type {Record<string, (data: any) => void>} */
const handlers = {
  progress({ loaded, total }) {
    received = loaded;
    show(`Loading the model: ${megabytes(loaded)} of ${megabytes(total)} MB`, loaded / total);
  },
  loaded({ target, memoryBytes, codeBytes }) {
    showFacts({
      ...(codeBytes && { Code: `${(codeBytes / 1000).toFixed(0)} KB` }),
      Weights: `${megabytes(received)} MB`,
      Memory: `${megabytes(memoryBytes)} MB`,
      Instructions: target,
      Vector: '384 numbers',
    });
  },
  embedded({ done, of, made, spent }) {
    const finished = done === of;
    const each = (spent / Math.max(made, 1)).toFixed(1);
    if (finished && !made) show(`${counted(of, 'sentence')}, whose vectors came with the page`, undefined, true);
    else if (finished)
      show(`${counted(of, 'sentence')} read in ${(spent / 1000).toFixed(1)} s, ${each} ms each`, undefined, true);
    else show(`Reading the sentences: ${done} of ${of}, ${each} ms each`, done / of);
    if (finished) document.body.dataset.ready = 'true';
  },
  answer({ id, tokens, embedding, ranking, best }) {
    if (id !== number) return;
    present(best);
    $('time').innerHTML = `<strong>${(embedding + ranking).toFixed(1)} ms</strong> for ${counted(tokens, 'token')}`;
    clearTimeout(spoken);
    if (best.length) spoken = setTimeout(() => ($('live').textContent = `Nearest: ${sentences[best[0].index]}`), 900);
  },
  failed({ message }) {
    fail(message);
  },
};

/**
 * @param {string} text
 * @param {number} [share] done; unknown if left out
 * @param {boolean} [finished]
 */
function show(text, share, finished = false) {
  $('status').textContent = text;
  $('progress').hidden = finished;
  if (share === undefined) $('progress').removeAttribute('value');
  else $('progress').value = share;
}

/** @param {string} message */
function fail(message) {
  showError('error', `The search cannot start: ${message}`);
  show('No model', 0, true);
}

function addRow() {
  const item = document.createElement('li');
  item.hidden = true;
  item.innerHTML =
    '<span class="text"></span><span class="score"></span><span class="track"><span class="fill"></span></span>';
  $('results').append(item);
  const [text, score, track] = /** @type {HTMLElement[]} */ ([...item.children]);
  return { item, text, score, fill: /** @type {HTMLElement} */ (track.firstElementChild) };
}

/**
 * Shows the ranking; without one, the first sentences as they are.
 * @param {{index: number, score: number}[]} [best]
 */
function present(best) {
  $('results').classList.toggle('ranked', Boolean(best));
  $('title').textContent = best ? 'Nearest in meaning' : `${counted(sentences.length, 'sentence')} to search in`;
  const shown = best ?? sentences.slice(0, rows.length).map((_, index) => ({ index, score: 0 }));
  rows.forEach(({ item, text, score, fill }, i) => {
    item.hidden = i >= shown.length;
    if (item.hidden) return;
    text.textContent = sentences[shown[i].index];
    score.textContent = best ? shown[i].score.toFixed(2) : '';
    fill.style.transform = `translateX(${100 * (Math.max(0, shown[i].score) - 1)}%)`;
  });
  if (!best) $('time').textContent = '';
}

/** Sends what stands in the field. */
function ask() {
  clearTimeout(pause);
  const text = $('query').value.trim();
  const id = ++number;
  if (text) worker.postMessage({ query: { id, text } });
  else present();
}

/** @param {string[]} chosen */
function search(chosen) {
  delete document.body.dataset.ready;
  sentences = chosen;
  $('back').hidden = chosen === own;
  worker.postMessage({ sentences });
  present();
  ask();
}

$('query').addEventListener('input', () => {
  clearTimeout(pause);
  pause = setTimeout(ask, PAUSE);
});
$('form').addEventListener('submit', (/** @type {Event} */ event) => {
  event.preventDefault();
  ask();
});
$('examples').addEventListener('click', (/** @type {any} */ { target }) => {
  if (!target.matches('button')) return;
  $('query').value = target.textContent;
  ask();
});
$('use').addEventListener('click', () => {
  const found = split($('paste').value);
  const few =
    found.length > MOST
      ? `Only the first ${MOST.toLocaleString('en')} of ${found.length.toLocaleString('en')} sentences are searched.`
      : '';
  $('note').textContent = found.length ? few : 'Paste or type at least one sentence first.';
  if (found.length) {
    search(found.slice(0, MOST));
    $('query').focus();
  }
});
$('back').addEventListener('click', () => {
  $('note').textContent = '';
  search(own);
  $('query').focus();
});
addEventListener('keydown', (event) => {
  const typing = /** @type {HTMLElement} */ (event.target).matches('input, textarea');
  if (event.key === '/' && !typing) {
    event.preventDefault();
    $('query').focus();
  } else if (event.key === 'Escape' && event.target === $('query')) {
    $('query').value = '';
    ask();
  }
});

show('Loading the model');
try {
  const response = await fetch(new URL('./sentences.txt', import.meta.url));
  if (!response.ok) throw new Error(`sentences.txt answers HTTP ${response.status}`);
  own = (await response.text()).split('\n').filter(Boolean);
  search(own);
} catch (error) {
  fail(/** @type {Error} */ (error).message);
}
