// The page: its controls, the curve, and what worker.js writes.

import '../isolation.js';
import { Chart } from '../chart.js';
import { $, chosen, counted, radios, showError, showFacts } from '../shared.js';

/** @typedef {import('./worker.js').Report} Report */
/** @typedef {import('./worker.js').Request} Request */

const SHOWN = 8; // samples from before
const SPAN = 300; // steps that the chart has room for at least
const FORM = {
  low: 1.5,
  high: 4.5,
  ticks: [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5],
  format: (/** @type {number} */ v) => v.toFixed(1),
};

/** @type {'loading' | 'fresh' | 'running' | 'writing' | 'paused' | 'failed'} */
let state = 'loading';
/** The name of a model that somebody brought. */
let brought = '';
/** Weights of the page's own model that somebody opened, and nobody has reset. */
let resumed = false;
/** The finished writer was asked for, and writes as soon as it is there. */
let finishing = false;
/** @type {import('../chart.js').Points} */
let losses = [];
let step = 0;
let speed = 0;
let read = 0;
let drawing = 0;
/** What is being written. */
let written = '';
/** @type {HTMLElement} */
let prose = document.createElement('span');
/** A reset that the worker has not answered yet: what it reports until then is of the training before. */
let resetting = false;
let runAfterReset = false;
/** @type {{step: number, loss: string, text: string}[]} */
let samples = [];

const chart = new Chart($('loss'), {
  ...FORM,
  stride: 10,
  formatAt: (at) => (at ? at.toLocaleString('en') : 'step 0'),
  smoothing: 0.9,
});
const worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
worker.addEventListener('message', (/** @type {MessageEvent<Report>} */ { data }) => hear(data));
worker.addEventListener('error', (event) => failed(event.message || 'its worker could not be loaded'));

/** @param {Request} request */
const ask = (request) => worker.postMessage(request);

/** @param {string} message */
function failed(message) {
  state = 'failed';
  showError('training-error', `The training stopped. ${message}`);
  schedule();
}

/** @param {Report} report */
function hear(report) {
  if (report.type === 'ready') {
    const { bytes, memory, target, threads } = report;
    showFacts({
      ...(bytes && { 'Training step': `${(bytes / 1024).toFixed(0)} KB` }),
      Memory: `${(memory / 2 ** 20).toFixed(0)} MB`,
      Threads: String(threads),
      Instructions: target,
      Imports: threads > 1 ? 'its memory' : 'none',
    });
    learn();
  } else if (report.type === 'fresh') fresh(report);
  else if (report.type === 'error') {
    if (report.about === 'training') return failed(report.message);
    showError(`${report.about}-error`, report.message);
    $('files-status').textContent = '';
    $('files-progress').hidden = true;
    finishing = false;
    if (state === 'loading') state = 'failed';
    else if (state !== 'fresh') state = 'paused';
    resetting = false;
  } else if (report.type === 'loading') {
    $('files-progress').hidden = false;
    $('files-progress').value = report.loaded / report.total;
    $('files-status').textContent =
      `Reading the weights: ${(report.loaded / 1e6).toFixed(0)} of ${(report.total / 1e6).toFixed(0)} MB`;
  } else if (report.type === 'opened') opened(report);
  else if (report.type === 'saved') download(report.file);
  else if (resetting || state === 'failed') return;
  else if (report.type === 'progress') {
    report.losses.forEach((loss, i) => losses.push([report.step - report.losses.length + i + 1, loss]));
    ({ step, speed, read } = report);
  } else if (report.type === 'paused') {
    if (state === 'writing') state = 'paused';
  } else if (report.type === 'began') {
    written = '';
    prose = document.createElement('span');
    const given = document.createElement('span');
    given.className = 'given';
    given.textContent = report.prompt;
    const pen = document.createElement('span');
    pen.className = 'pen';
    $('output').replaceChildren(given, prose, pen);
    $('when').textContent = brought || weightsOf(report.step);
  } else if (report.type === 'wrote') {
    written += report.text;
    prose.append(report.text);
  } else if (report.type === 'written') {
    $('output').querySelector('.pen')?.remove();
    $('rate').textContent = Math.round(report.speed).toLocaleString('en');
    $('rate-unit').textContent = `${report.unit} a second`;
    if (!brought) remember(report.step);
  }
  schedule();
}

/** @param {Extract<Report, {type: 'fresh'}>} report */
function fresh(report) {
  resetting = resumed = false;
  state = 'fresh';
  step = report.step;
  speed = 0;
  losses = [];
  samples = [];
  for (const id of ['training-error', 'text-error']) $(id).hidden = true;
  const left = report.left ? `, and ${report.left.toLocaleString('en')} that are too rare are left out` : '';
  $('text-facts').textContent = `${counted(report.length, 'character')}, ${report.characters} different ones${left}.`;
  if (!brought) {
    $('output').textContent = '';
    $('when').textContent = 'nothing yet';
  }
  document.body.dataset.ready = 'true';
  drawSamples();
  if (runAfterReset) go();
  runAfterReset = false;
}

/** @param {Extract<Report, {type: 'opened'}>} report */
function opened({ name, own }) {
  $('files-error').hidden = $('files-progress').hidden = true;
  brought = own ? '' : finishing ? 'A finished writer' : name;
  resumed = own;
  state = own ? 'fresh' : 'paused';
  $('files-status').textContent = own
    ? 'The weights are in their place: write with them, or train on.'
    : `${brought} is ready: it writes above.`;
  $('output').textContent = '';
  $('when').textContent = own ? 'from the weights opened' : brought;
  if (finishing) {
    finishing = false;
    write();
  } else if (!own) {
    $('output').scrollIntoView({ block: 'center' });
    $('prompt').focus({ preventScroll: true });
  }
}

/**
 * Keeps a sample for comparison: the first ones, and of later ones those with about twice the steps of the one before.
 * @param {number} at
 */
function remember(at) {
  const last = samples.at(-1);
  if (last && at < last.step * 1.5 + 5) return;
  samples.push({
    step: at,
    loss: chart.latest(losses)?.toFixed(2) ?? '',
    text: written.replace(/\s+/g, ' ').trim().slice(0, 160),
  });
  if (samples.length > SHOWN) samples.splice(1, 1);
  drawSamples();
}

/** Says what weights write. @param {number} at the steps that they have had here */
function weightsOf(at) {
  if (resumed) return at ? `the weights opened, ${counted(at, 'step')} later` : 'from the weights opened';
  return at ? `after ${counted(at, 'step')}` : 'before its first step';
}

function write() {
  ask({ type: 'write', prompt: $('prompt').value });
  state = 'writing';
  schedule();
}

/** Fetches a model that was trained before, and has it write; or goes back from it. */
async function finished() {
  if (brought) return back();
  if (state === 'running' || state === 'writing') state = 'paused';
  finishing = true;
  $('files-error').hidden = $('finished-error').hidden = true;
  schedule();
  try {
    const answer = await fetch(new URL('tiny.safetensors', import.meta.url));
    if (!answer.ok) throw new Error(`tiny.safetensors answers HTTP ${answer.status}`);
    ask({ type: 'open', files: [new File([await answer.blob()], 'tiny.safetensors')] });
  } catch (error) {
    finishing = false;
    showError('finished-error', `The finished writer could not be loaded: ${/** @type {Error} */ (error).message}`);
    schedule();
  }
}

function back() {
  ask({ type: 'own' });
  brought = '';
  $('files-status').textContent = $('output').textContent = '';
  $('when').textContent = 'nothing yet';
  schedule();
}

function drawSamples() {
  const rows = samples.map(({ step: at, loss, text }) => {
    const row = document.createElement('li');
    row.innerHTML = '<span></span><span></span><q></q>';
    const [when, value, said] = row.children;
    when.textContent = at ? counted(at, 'step') : resumed ? 'as opened' : '0 steps';
    value.textContent = loss && `loss ${loss}`;
    said.textContent = text;
    return row;
  });
  const none = Object.assign(document.createElement('li'), {
    className: 'none',
    textContent: 'Samples from its first steps on will stand here.',
  });
  $('samples').replaceChildren(...(rows.length ? rows : [none]));
}

/** The large button: start, pause or go on. */
function go() {
  if (resetting) {
    runAfterReset = true;
  } else if (state === 'running') {
    ask({ type: 'pause' });
    state = 'paused';
    $('announce').textContent = `Paused after ${counted(step, 'step')}. ${described()}`;
  } else {
    ask({ type: 'run' });
    state = 'running';
    $('announce').textContent = 'Training';
  }
  schedule();
}

function reset() {
  if (!$('controls').reportValidity()) return;
  resetting = true;
  ask({ type: 'reset', seed: $('seed').valueAsNumber });
}

/** Takes the text that is chosen. */
async function learn() {
  const own = chosen('text') === 'own';
  $('own').hidden = !own;
  $('plays').hidden = own;
  $('text-error').hidden = true;
  if (own) return;
  try {
    const answer = await fetch(new URL('plays.txt', import.meta.url));
    if (!answer.ok) throw new Error(`plays.txt answers HTTP ${answer.status}`);
    use(await answer.text());
  } catch (error) {
    failed(`The text could not be loaded: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {string} text */
function use(text) {
  resetting = true;
  ask({ type: 'text', text });
  schedule();
}

/** @param {File[]} files */
async function open(files) {
  if (!files.length) return;
  $('files-error').hidden = true;
  const [text] = files.filter(({ name }) => /\.txt$/i.test(name) && !/merges\.txt$/i.test(name));
  if (text && files.length === 1) {
    for (const radio of radios('text')) radio.checked = radio.value === 'own';
    $('own').hidden = false;
    $('plays').hidden = true;
    $('paste').value = await text.text();
    return use($('paste').value);
  }
  if (state === 'running' || state === 'writing') state = 'paused';
  $('files-status').textContent = 'Reading the files';
  ask({ type: 'open', files });
  schedule();
}

/** @param {Blob} file */
function download(file) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = `writer-${step}-steps.safetensors`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const described = () => {
  const loss = chart.latest(losses);
  return loss === undefined ? '' : `Loss ${loss.toFixed(2)} nats a character.`;
};

function schedule() {
  document.body.dataset.training = state;
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    draw();
  });
}

function draw() {
  const usable = state !== 'loading' && state !== 'failed';
  const running = state === 'running';
  $('start').textContent = running ? 'Pause' : step || resumed ? 'Go on' : 'Start';
  $('start').disabled = !usable || Boolean(brought);
  $('reset').disabled = state === 'loading' || Boolean(brought);
  $('write').disabled = !usable || finishing;
  $('finished').disabled = !usable || finishing;
  $('finished').textContent = brought ? 'Back to training' : finishing ? 'Loading it' : 'Let a finished one write';
  $('save').disabled = !usable || Boolean(brought);
  $('progress').hidden = state !== 'loading';
  if (state === 'loading') $('status').textContent = 'Loading the modules';
  else if (state === 'failed') $('status').textContent = 'Failed';
  else if (brought) $('status').textContent = `${brought} writes. Training is for the model of this page.`;
  else if (!step && resumed)
    $('status').textContent = running ? 'Beginning' : 'Weights that you opened: train on, or write';
  else if (!step) $('status').textContent = running ? 'Beginning' : 'Random weights, not trained yet';
  else {
    const pace = running ? `, ${speed.toFixed(1)} a second` : '';
    $('status').innerHTML =
      `<b id="step">${counted(step, 'step')}</b>${pace}<br>reads <b ` +
      `id="speed">${Math.round(read).toLocaleString('en')}</b> characters a second`;
  }
  const loss = chart.latest(losses);
  $('loss-value').textContent = loss === undefined ? '–' : loss.toFixed(3);
  const first = losses[0]?.[1];
  const fell =
    first === undefined || loss === undefined
      ? 'no values yet'
      : `from ${first.toFixed(2)} to ${loss.toFixed(2)} nats a character after ${counted(step, 'step')}`;
  chart.show([{ name: 'loss', points: losses }], Math.max(SPAN, step), `Loss: ${fell}`);
}

$('controls').addEventListener('submit', (/** @type {Event} */ event) => {
  event.preventDefault();
  go();
});
$('reset').addEventListener('click', reset);
// A seed takes effect with the weights it makes.
$('seed').addEventListener('change', () => !step && !resumed && !brought && reset());
$('temperature').addEventListener('input', () => {
  const value = $('temperature').valueAsNumber;
  $('temperature-value').textContent = value.toFixed(2).replace(/0$/, '');
  ask({ type: 'temperature', value });
});
$('ask').addEventListener('submit', (/** @type {Event} */ event) => {
  event.preventDefault();
  if (!$('write').disabled && !resetting) write();
});
for (const radio of radios('text')) radio.addEventListener('change', learn);
$('use').addEventListener('click', () => use($('paste').value));
$('file').addEventListener('change', () => {
  open([...$('file').files]).then(() => ($('file').value = ''));
});
$('save').addEventListener('click', () => ask({ type: 'save' }));
$('finished').addEventListener('click', finished);

let inside = 0;
addEventListener('dragenter', (event) => {
  if (event.dataTransfer?.types.includes('Files')) document.body.classList.toggle('dropping', ++inside > 0);
});
addEventListener('dragleave', () => document.body.classList.toggle('dropping', --inside > 0));
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  if (!event.dataTransfer?.files.length) return;
  event.preventDefault();
  inside = 0;
  document.body.classList.remove('dropping');
  open([...event.dataTransfer.files]);
});

schedule();
