// The page: text goes to the compiler's worker, what it says is shown in four views that share one selection, and the
// module runs.

import '../isolation.js';
import { $, chosen, counted, radios, showError, showFacts } from '../shared.js';
import { Editor } from './editor.js';
import { Graph } from './graph.js';
import { Pane, Selection } from './lines.js';
import { LONGEST, pack, unpack } from './link.js';
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
  ['softmax', 'Softmax'],
  ['gelu', 'Matmul and GELU'],
  ['mandelbrot', 'Mandelbrot set'],
  ['sort', 'Sort with indices'],
  ['edges', 'Edges of a picture'],
  ['gradient', 'Gradient of an MLP'],
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
const KEPT = 'xla_wasm playground';

const selection = new Selection();
const editor = new Editor($('editor'), selection, () => {
  binary = null;
  typed();
});
const graph = new Graph($('graph'), selection);
const panes = ['HLO after passes', 'Plan', 'Loops', 'WebAssembly'].map(
  (title) => new Pane($('stages'), title, selection),
);
const compiler = new Work(() => new Worker(new URL('./compiler.js', import.meta.url), { type: 'module' }), told);
const runner = new Work(() => new Worker(new URL('./runner.js', import.meta.url), { type: 'module' }));

/** @typedef {import('./link.js').Source} Source */
/** @type {{name: string, bytes: Uint8Array} | null} a binary module, as it was dropped */
let binary = null;
/** What a reload finds again: the name of an example, or '' and a module of one's own. */
let kept = { example: EXAMPLES[0][0], text: '', sizes: '' };
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
let runs = 0;
let running = false;

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
    $('compare').hidden = !lacking.length;
    $('progress').hidden = true;
    $('compile').disabled = false;
    document.body.dataset.ready = 'true';
    if (!beforehand || !lacking.length) return compile();
    say('Compiled beforehand. The compiler is here now: change the text, or press Compile.');
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

/** Keeps what a reload shall find, if the browser lets it. */
function keep() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(kept));
  } catch {
    // Storage is off or full.
  }
  $('own').hidden = !kept.text;
}

/** Takes what is in the editor as a module of one's own. */
function own() {
  $('example').value = '';
  kept = { example: '', text: editor.text, sizes: $('sizes').value };
  keep();
  // A link in the address is of another text.
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
}

/**
 * Says what became of a link.
 * @param {string} text
 * @param {boolean} [bad]
 */
function sayLink(text, bad = false) {
  $('link-says').textContent = text;
  $('link-says').hidden = !text;
  $('link-says').classList.toggle('bad', bad);
}

function typed() {
  // What was compiled beforehand is of another text.
  version += Number(beforehand);
  beforehand = false;
  document.body.dataset.state = 'edited';
  selection.set('chosen', []);
  clearTimeout(timer);
  sayLink('');
  if (!binary) own();
  timer = setTimeout(compile, PAUSE);
}

/**
 * Takes text or bytes as the module, and compiles it.
 * @param {string | {name: string, bytes: Uint8Array}} source
 * @param {string} [sizes] that it leaves open
 */
function use(source, sizes = '') {
  clearTimeout(timer);
  selection.set('chosen', []);
  binary = typeof source === 'string' ? null : source;
  $('fixed').hidden = true;
  sayLink('');
  $('sizes').value = sizes;
  $('sizes-field').hidden = !sizes;
  editor.set(typeof source === 'string' ? source : '', false);
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  return compile();
}

/** Shows the text of a binary module, and says why it cannot be edited. @param {string} text */
function showBinary(text) {
  if (!binary) return;
  editor.set(text.slice(0, MOST_TEXT), Boolean(text));
  $('fixed').hidden = !text;
  $('fixed-says').textContent =
    `This is what ${binary.name} holds, as text to read: the bytes of the file are what is compiled. `;
  // Long constants are not printed, and what is cut off is no module either.
  $('edit').hidden = text.length > MOST_TEXT || /constant\(\{\.\.\.\}\)/.test(text);
}

function edit() {
  binary = null;
  $('fixed').hidden = true;
  editor.set(editor.text, false);
  editor.area.focus();
  own();
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
    const source = binary?.bytes ?? editor.text;
    const made = await compiler.call({ kind: 'compile', source, sizes: $('sizes').value, target });
    if (current !== version) return;
    showBinary(made.text);
    if (made.failure) return failed(made.failure);
    say(`Compiled in ${time(made.milliseconds)}, here in the page`);
    const told = await compiler.call({ kind: 'explain', target });
    if (current !== version) return;
    if (told.failure) return failed(told.failure);
    explained = told;
    await start(made.wasm, current);
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
  await start(wasm, current);
}

/**
 * Shows what was compiled, and runs it.
 * @param {Uint8Array} wasm
 * @param {number} current the version that it is of
 */
async function start(wasm, current) {
  clearResults();
  show(wasm);
  await loadModule(wasm, current);
  if (current !== version) return;
  document.body.dataset.state = 'compiled';
  await run();
}

/** Ends a run of the module before, and takes away what it gave. */
function clearResults() {
  loaded = null;
  runs++;
  if (running) runner.restart();
  running = false;
  delete document.body.dataset.run;
  $('outputs').replaceChildren();
  for (const id of ['timing', 'reference']) $(id).textContent = '';
  $('run').disabled = $('stop').hidden = $('run-error').hidden = true;
}

/** @param {{kind: string, message: string, line: number | null, column: number | null, sizes: string}} failure */
function failed({ kind, message, line, column, sizes }) {
  document.body.dataset.state = 'failed';
  explained = null;
  clearResults();
  graph.show([], () => '');
  for (const pane of panes) pane.set('', []);
  for (const id of ['inputs', 'facts', 'kernels']) $(id).replaceChildren();
  $('about').textContent = '';
  $('download').hidden = true;
  if (sizes) {
    $('sizes-field').hidden = false;
    $('sizes').placeholder = sizes;
  }
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

/** @param {Uint8Array} wasm @param {number} current the version that it is of */
async function loadModule(wasm, current) {
  const made = await runner.call({ kind: 'load', wasm });
  if (current !== version) return;
  if (made.failure) throw new Error(made.failure.message);
  loaded = { wasm, inputs: made.inputs, outputs: made.outputs };
  // Inputs that someone chose stay while the module keeps its parameters.
  const signature = JSON.stringify(made.inputs);
  if (signature !== $('inputs').dataset.of || !$('inputs').childElementCount)
    readInputs = inputRows($('inputs'), made.inputs);
  $('inputs').dataset.of = signature;
  $('run').disabled = false;
}

async function run() {
  if (!loaded) return;
  const now = loaded;
  const own = ++runs;
  running = true;
  $('run-error').hidden = true;
  $('run').disabled = true;
  $('stop').hidden = false;
  $('timing').textContent = 'Running';
  document.body.dataset.run = 'running';
  try {
    const inputs = readInputs();
    const done = await runner.call({ kind: 'run', inputs });
    if (own !== runs) return;
    if (done.failure) throw new Error(done.failure.message);
    $('timing').textContent = `${time(done.milliseconds)} a run, the best of ${done.runs.toLocaleString('en')}`;
    $('outputs').replaceChildren(...now.outputs.map((leaf, i) => resultView(leaf, done.outputs[i])));
    showKernels(done.steps);
    document.body.dataset.run = 'done';
    await compare(inputs, done.outputs);
  } catch (error) {
    if (own !== runs) return;
    const message = /** @type {Error} */ (error).message;
    // What stands there is of other inputs.
    $('outputs').replaceChildren();
    showKernels([]);
    for (const id of ['timing', 'reference']) $(id).textContent = '';
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
    if (own === runs) {
      running = false;
      $('run').disabled = !loaded;
      $('stop').hidden = true;
    }
  }
}

/**
 * Asks the reference evaluator, where it can run.
 * @param {any[]} inputs
 * @param {any[]} outputs
 */
async function compare(inputs, outputs) {
  const current = version;
  $('reference').textContent = '';
  if (beforehand || lacking.length) return;
  const bytes = (/** @type {any[]} */ arrays) =>
    arrays.map((a) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength).slice());
  const { rows, failure } = await compiler.call({ kind: 'compare', inputs: bytes(inputs), outputs: bytes(outputs) });
  if (current !== version) return;
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
  if (!isText) return use({ name: file.name, bytes });
  kept = { example: '', text: new TextDecoder().decode(bytes), sizes: '' };
  keep();
  use(kept.text);
}

/** Shows what is chosen: an example, or the module of one's own. */
async function choose() {
  const name = (kept.example = $('example').value);
  keep();
  if (!name) return use(kept.text, kept.sizes);
  const answer = await fetch(`examples/${name}.hlo`);
  if (name !== $('example').value) return;
  if (answer.ok) {
    use(await answer.text());
    if (!ready) await showBeforehand(name);
  } else say(`The example could not be loaded: HTTP ${answer.status}`, true);
}

/** Begins with the module in the address, or what was there before a reload, or an example. */
async function begin() {
  try {
    const kind = JSON.parse(localStorage.getItem(KEPT) ?? '{}');
    if (typeof kind.text === 'string' && typeof kind.sizes === 'string')
      kept = { example: EXAMPLES.some(([name]) => name === kind.example) ? kind.example : '', ...only(kind) };
    if (!kept.text && !kept.example) kept.example = EXAMPLES[0][0];
  } catch {
    // Storage is off, or what is there is from something else.
  }
  $('own').hidden = !kept.text;
  $('example').value = kept.example;
  await openLink(choose);
}

/** @param {Source} source @returns {Source} */
const only = ({ text, sizes }) => ({ text, sizes });

/**
 * Shows the module in the address.
 * @param {() => Promise<void>} otherwise what is done where there is none
 */
async function openLink(otherwise) {
  const { hash } = location;
  try {
    const source = await unpack(hash);
    if (!source) return await otherwise();
    $('example').value = '';
    use(source.text, source.sizes);
    history.replaceState(null, '', hash);
  } catch (error) {
    await otherwise();
    sayLink(/** @type {Error} */ (error).message, true);
  }
}

async function share() {
  if (binary) return sayLink('A file is not put into a link: edit it as text, or send the file.', true);
  const hash = await pack({ text: editor.text, sizes: $('sizes').value });
  const link = new URL(`#${hash}`, location.href).href;
  if (link.length > LONGEST) {
    const [has, most] = [link, { length: LONGEST }].map(({ length }) => length.toLocaleString('en'));
    return sayLink(`Too long for a link: it would have ${has} characters, and many places cut links of ${most}.`, true);
  }
  history.replaceState(null, '', link);
  try {
    await navigator.clipboard.writeText(link);
    sayLink(`The link is copied: ${counted(link.length, 'character')} that hold the module.`);
  } catch {
    sayLink('The address of this page is the link now: copy it from there.');
  }
}

for (const [value, title] of EXAMPLES) $('example').add(new Option(title, value));
$('example').add(Object.assign(new Option('Own module', ''), { id: 'own' }));
$('example').addEventListener('change', choose);
$('sizes').addEventListener('input', typed);
$('edit').addEventListener('click', edit);
$('share').addEventListener('click', share);
addEventListener('hashchange', () => openLink(async () => {}));
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
begin();
