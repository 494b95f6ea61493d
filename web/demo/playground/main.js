// The page: text goes to the compiler's worker, what it says is shown in four views that share one selection, and the
// module runs.

import { $, chosen, radios, showError, showFacts } from '../shared.js';
import { Editor } from './editor.js';
import { Graph } from './graph.js';
import { Pane, Selection } from './lines.js';
import { inputRows, resultView } from './values.js';
import { Work } from './work.js';

/** @typedef {import('./graph.js').Node} Node */
/** @typedef {import('./values.js').Leaf} Leaf */
/** @typedef {{name: string, bytes: number, steps: number[], instructions: number[]}} Kernel */
/** @typedef {{name: string, kind: string, kernel: string, instructions: number[], before: boolean}} Step */
/** @typedef {{name: string, text: string, lines: import('./lines.js').Range[]}} Stage */
/**
 * @typedef {object} Explained
 * @property {string} name
 * @property {Node[]} nodes
 * @property {Node[]} passed
 * @property {import('./lines.js').Range[]} source
 * @property {Stage[]} stages
 * @property {Step[]} steps
 * @property {Kernel[]} kernels
 * @property {number} memory
 */

const EXAMPLES = [
  ['softmax', 'Softmax: one kernel'],
  ['gelu', 'Matmul + bias + GELU'],
  ['mandelbrot', 'Mandelbrot: a while loop'],
  ['sort', 'Sort with indices'],
  ['edges', 'Convolution: edges of a picture'],
  ['gradient', 'Gradient of a small MLP'],
];
/** @type {Record<string, string>} */
const FAILURES = {
  ParseError: 'This is not HLO',
  HloTextError: 'This is not HLO',
  VerifyError: 'The module breaks a rule of HLO',
  UnsupportedError: 'This cannot be compiled yet',
};
const HEAD = ['Step', 'Kernel', 'Instructions', 'Code', 'Time']
  .map((title) => `<th scope="col">${title}</th>`)
  .join('');
const PAUSE = 700; // milliseconds without a key before what was typed is compiled
const MOST_TEXT = 2_000_000; // characters of a binary module that are shown

const selection = new Selection();
const editor = new Editor($('editor'), selection, typed);
const graph = new Graph($('graph'), selection);
const panes = ['HLO after passes', 'Plan', 'Loops', 'WebAssembly'].map(
  (title) => new Pane($('stages'), title, selection),
);
const compiler = new Work(() => new Worker(new URL('./compiler.js', import.meta.url), { type: 'module' }), told);
const runner = new Work(() => new Worker(new URL('./runner.js', import.meta.url), { type: 'module' }));

/** @type {Uint8Array | null} the bytes of a binary module, as they were dropped */
let binary = null;
/** @type {Explained | null} */
let explained = null;
/** @type {{wasm: Uint8Array, inputs: Leaf[], outputs: Leaf[]} | null} */
let loaded = null;
let readInputs = () => /** @type {any[]} */ ([]);
/** @type {string[]} */
let lacking = [];
let ready = false;
/** What is shown was compiled when the site was made, since the compiler was not there yet. */
let beforehand = false;
let version = 0;
let timer = 0;

/** @param {number} bytes */
function size(bytes) {
  if (bytes < 10_000) return `${bytes.toLocaleString('en')} bytes`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {number} ms */
function time(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms >= 1) return `${ms.toFixed(2)} ms`;
  return ms < 0.00005 ? '< 0.1 µs' : `${(ms * 1000).toFixed(1)} µs`;
}

/** @param {any} message */
function told(message) {
  if (message.kind === 'progress') {
    const { loaded: now, total } = message;
    $('progress').value = now / total;
    say(
      now < total ? `Loading Python: ${(now / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB` : 'Starting Python',
    );
  } else if (message.kind === 'ready') {
    ready = true;
    lacking = message.lacking;
    $('progress').hidden = true;
    $('compile').disabled = false;
    document.body.dataset.ready = 'true';
    if (!beforehand || !lacking.length) return compile();
    say('Compiled beforehand. The compiler is here now: change the text, or press Compile.');
    compare([], []);
  } else if (message.kind === 'broken') {
    $('progress').hidden = true;
    say(`The compiler could not be loaded: ${message.message}`, true);
  }
}

/**
 * @param {string} text
 * @param {boolean} [bad]
 */
function say(text, bad = false) {
  $('says').textContent = text;
  $('status').classList.toggle('bad', bad);
}

function typed() {
  binary = null;
  // What was compiled beforehand is of another text.
  version += Number(beforehand);
  beforehand = false;
  $('example').value = '';
  selection.set('chosen', []);
  clearTimeout(timer);
  timer = setTimeout(compile, PAUSE);
}

/**
 * Takes text or bytes as the module, and compiles it.
 * @param {string | Uint8Array} source
 */
function use(source) {
  clearTimeout(timer);
  selection.set('chosen', []);
  binary = typeof source === 'string' ? null : source;
  editor.set(typeof source === 'string' ? source : '', false);
  compile();
}

async function compile() {
  clearTimeout(timer);
  if (!ready) return;
  beforehand = false;
  const current = ++version;
  document.body.dataset.state = 'compiling';
  editor.clear();
  say('Compiling');
  try {
    const target = 'simd128';
    const made = await compiler.call({ kind: 'compile', source: binary ?? editor.text, target });
    if (current !== version) return;
    if (binary) editor.set(made.text.length <= MOST_TEXT ? made.text : made.text.slice(0, MOST_TEXT), true);
    if (made.failure) return failed(made.failure);
    say(`Compiled in ${time(made.milliseconds)}, here in the page`);
    const told = await compiler.call({ kind: 'explain', target });
    if (current !== version) return;
    if (told.failure) return failed(told.failure);
    explained = told;
    show(made.wasm);
    await loadModule(made.wasm);
    if (current !== version) return;
    document.body.dataset.state = 'compiled';
    await run();
  } catch (error) {
    if (current === version) say(`Something went wrong: ${/** @type {Error} */ (error).message}`, true);
  }
}

/**
 * Shows and runs an example as it was compiled when the site was made, while the compiler is on its way.
 * @param {string} name
 */
async function showBeforehand(name) {
  const current = ++version;
  const answer = await fetch(`examples/${name}.json`);
  if (!answer.ok || ready || current !== version) return;
  const made = await answer.json();
  if (ready || current !== version) return;
  const wasm = Uint8Array.from(atob(made.wasm), (character) => character.charCodeAt(0));
  beforehand = true;
  explained = made.explained;
  show(wasm);
  await loadModule(wasm);
  if (current !== version) return;
  document.body.dataset.state = 'compiled';
  await run();
}

/** @param {{kind: string, message: string, line: number | null, column: number | null}} failure */
function failed({ kind, message, line, column }) {
  document.body.dataset.state = 'failed';
  explained = null;
  loaded = null;
  graph.show([], () => '');
  for (const pane of panes) pane.set('', []);
  for (const id of ['inputs', 'outputs', 'facts', 'kernels']) $(id).replaceChildren();
  for (const id of ['timing', 'reference', 'about']) $(id).textContent = '';
  $('run').disabled = true;
  $('run-error').hidden = $('download').hidden = true;
  const what = FAILURES[kind] ?? 'This cannot be compiled';
  say(line ? `${what}: see line ${line}` : what, true);
  editor.fail(message, line ?? 0, column ?? 1);
}

/** @param {Uint8Array} wasm */
function show(wasm) {
  if (!explained) return;
  editor.link(explained.source);
  panes.forEach((pane, i) => pane.set(explained?.stages[i].text ?? '', explained?.stages[i].lines ?? []));
  showGraph();
  const url = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (wasm)], { type: 'application/wasm' }));
  URL.revokeObjectURL($('download').href);
  $('download').href = url;
  $('download').download = `${explained.name || 'module'}.wasm`;
  $('download').hidden = false;
  showKernels([]);
  const steps = explained.steps.filter(({ before, kind }) => !before && kind !== 'halt').length;
  showFacts({ File: size(wasm.length), Memory: size(explained.memory), Steps: String(steps), Imports: 'none' });
}

/** The numbers of the steps that an instruction went into, as a badge. @param {Node} node */
function badge(node) {
  const steps = explained?.steps ?? [];
  const found = steps.flatMap(({ kernel, instructions, before }, i) => {
    return kernel && !before && node.origin.some((id) => instructions.includes(id)) ? [i] : [];
  });
  return found.length > 2 ? `${found[0]}, ${found[1]} …` : found.join(', ');
}

function showGraph() {
  if (!explained) return;
  graph.show(chosen('graph') === 'passed' ? explained.passed : explained.nodes, badge);
}

/** The steps of a run with what they are made of. @param {number[]} milliseconds of each step, if they are known */
function showKernels(milliseconds) {
  if (!explained) return;
  const { steps, kernels } = explained;
  const rows = steps
    .map((step, i) => ({ ...step, i, ms: milliseconds[i] }))
    .filter(({ kernel, before }) => kernel && !before);
  const most = Math.max(1e-9, ...rows.map(({ ms }) => ms ?? 0));
  const head = document.createElement('thead');
  head.innerHTML = `<tr>${HEAD}<th scope="col"><span class="unseen">Share</span></th></tr>`;
  const body = document.createElement('tbody');
  for (const { i, kernel, instructions, ms } of rows) {
    const code = kernels.find(({ name }) => name === kernel)?.bytes ?? 0;
    const row = document.createElement('tr');
    row.innerHTML =
      '<td></td><td><button type="button"></button></td><td></td><td></td><td></td><td ' +
      'class="bar-cell"><span></span></td>';
    const button = /** @type {HTMLButtonElement} */ (row.querySelector('button'));
    button.textContent = kernel;
    button.addEventListener('click', () => selection.toggle(instructions));
    row.addEventListener('pointerenter', () => selection.set('hover', instructions));
    row.addEventListener('pointerleave', () => selection.set('hover', []));
    const cells = row.children;
    cells[0].textContent = String(i);
    cells[2].textContent = String(instructions.length);
    cells[3].textContent = size(code);
    cells[4].textContent = ms === undefined ? '–' : time(ms);
    /** @type {HTMLElement} */ (cells[5].firstChild).style.width = `${(100 * (ms ?? 0)) / most}%`;
    body.append(row);
  }
  $('kernels').replaceChildren(head, body);
}

/** @param {Uint8Array} wasm */
async function loadModule(wasm) {
  const made = await runner.call({ kind: 'load', wasm });
  if (made.failure) throw new Error(made.failure.message);
  const same = loaded && JSON.stringify(loaded.inputs) === JSON.stringify(made.inputs);
  loaded = { wasm, inputs: made.inputs, outputs: made.outputs };
  // Inputs that someone chose stay while the module keeps its parameters.
  if (!same || !$('inputs').childElementCount) readInputs = inputRows($('inputs'), made.inputs);
  $('run').disabled = false;
}

async function run() {
  if (!loaded) return;
  const now = loaded;
  $('run-error').hidden = true;
  $('run').disabled = true;
  $('stop').hidden = false;
  $('timing').textContent = 'Running';
  document.body.dataset.run = 'running';
  try {
    const inputs = readInputs();
    const done = await runner.call({ kind: 'run', inputs });
    if (now !== loaded) return;
    if (done.failure) throw new Error(done.failure.message);
    $('timing').textContent = `${time(done.milliseconds)} a run, the best of ${done.runs.toLocaleString('en')}`;
    $('outputs').replaceChildren(...now.outputs.map((leaf, i) => resultView(leaf, done.outputs[i])));
    showKernels(done.steps);
    document.body.dataset.run = 'done';
    await compare(inputs, done.outputs);
  } catch (error) {
    if (now !== loaded) return;
    const message = /** @type {Error} */ (error).message;
    $('timing').textContent = '';
    document.body.dataset.run = 'failed';
    if (message !== 'stopped') {
      showError('run-error', message);
      // After a trap the runner's module is gone.
      if (/ failed in step |failed before/.test(message)) await runner.call({ kind: 'load', wasm: now.wasm });
    } else {
      $('timing').textContent = 'Stopped';
      await runner.call({ kind: 'load', wasm: now.wasm });
    }
  } finally {
    $('run').disabled = !loaded;
    $('stop').hidden = true;
  }
}

/**
 * Asks the reference evaluator, where it can run.
 * @param {any[]} inputs
 * @param {any[]} outputs
 */
async function compare(inputs, outputs) {
  // The reference evaluator comes with the compiler.
  if (beforehand && !ready) return ($('reference').textContent = '');
  if (lacking.length) {
    const names = lacking.map((name) => (name === 'numpy' ? 'NumPy' : name)).join(' and ');
    $('reference').textContent =
      `Not compared with the reference evaluator: it needs ${names}, which this copy of Pyodide does not have.`;
    return;
  }
  const bytes = (/** @type {any[]} */ arrays) =>
    arrays.map((a) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength).slice());
  const { rows, failure } = await compiler.call({ kind: 'compare', inputs: bytes(inputs), outputs: bytes(outputs) });
  if (failure) return ($('reference').textContent = failure.message ?? failure);
  const verdict = rows.every((/** @type {any} */ row) => row.agrees) ? 'Agrees with' : 'Differs from';
  const off = rows.map((/** @type {any} */ row, /** @type {number} */ i) => {
    return `${loaded?.outputs[i]?.name} off by ${row.absolute?.toPrecision(2) ?? 'infinity'}`;
  });
  $('reference').textContent = `${verdict} the reference evaluator: ${off.join(', ')}.`;
}

function about() {
  const chosen = [...selection.get('chosen')];
  const nodes = chosen.map((id) => explained?.nodes[id]).filter((node) => node !== undefined);
  if (!explained || !nodes.length) return ($('about').textContent = 'Choose an instruction to follow it.');
  const steps = explained.steps.flatMap(({ kernel, instructions, before }, i) => {
    const has = kernel && nodes.some(({ origin }) => instructions.includes(origin[0]));
    return has ? [`${before ? 'start-up step' : 'step'} ${i} (${kernel})`] : [];
  });
  const what =
    nodes.length === 1 ? `${nodes[0].name}: ${nodes[0].opcode}, ${nodes[0].shape}` : `${nodes.length} instructions`;
  const more = steps.length > 4 ? ` and ${steps.length - 4} more` : '';
  const where = steps.length ? `computed in ${steps.slice(0, 4).join(', ')}${more}` : 'in no kernel: it costs nothing';
  $('about').textContent = `${what} · ${where}`;
}

/** @param {File | undefined} file */
async function open(file) {
  if (!file) return;
  const bytes = new Uint8Array(await file.arrayBuffer());
  // A proto has bytes that no text has, among its first already.
  const isText = !bytes.subarray(0, 4096).some((byte) => byte < 9 || (byte > 13 && byte < 32));
  $('example').value = '';
  use(isText ? new TextDecoder().decode(bytes) : bytes);
}

async function example() {
  const answer = await fetch(`examples/${$('example').value}.hlo`);
  if (answer.ok) {
    const name = $('example').value;
    use(await answer.text());
    if (!ready) await showBeforehand(name);
  } else say(`The example could not be loaded: HTTP ${answer.status}`, true);
}

for (const [value, title] of EXAMPLES) $('example').add(new Option(title, value));
$('example').add(Object.assign(new Option('Own module', ''), { hidden: true }));
$('example').addEventListener('change', example);
$('file').addEventListener('change', (/** @type {any} */ event) =>
  open(event.target.files[0]).then(() => (event.target.value = '')),
);
$('compile').addEventListener('click', compile);
$('run').addEventListener('click', run);
$('stop').addEventListener('click', () => runner.restart());
$('zoom-in').addEventListener('click', () => graph.zoom(0.75));
$('zoom-out').addEventListener('click', () => graph.zoom(1.33));
$('zoom-fit').addEventListener('click', () => graph.fit());
for (const radio of radios('graph')) radio.addEventListener('change', showGraph);
selection.addEventListener('change', about);
addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) compile();
});
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
  open(event.dataTransfer.files[0]);
});

about();
example();
