// The page: how many workers there are and how they exchange data, and the three panels that this is for.

import '../isolation.js';
import { $, chosen, radios } from '../shared.js';
import { CollectivesPanel } from './collectives.js';
import { TimesPanel } from './times.js';
import { TrainingPanel } from './training.js';

/** @typedef {import('./programs.js').Setup} Setup */
/** @typedef {import('./programs.js').Transport} Transport */

const MOST = 8;

const choices = radios('transport');
const isIsolated = globalThis.crossOriginIsolated && typeof SharedArrayBuffer !== 'undefined';
const cores = navigator.hardwareConcurrency;

/** @returns {Setup} */
function setup() {
  return { workers: $('workers').valueAsNumber, transport: /** @type {Transport} */ (chosen('transport')) };
}

/**
 * What the address asks for, as `?workers=8&transport=messages`; otherwise a worker for each core, four of them at
 * most.
 */
function fromAddress() {
  const query = new URLSearchParams(location.search);
  const workers = Math.trunc(Number(query.get('workers')));
  $('workers').value = workers >= 1 && workers <= MOST ? workers : Math.min(4, Math.max(2, cores || 4));
  const transport = isIsolated && query.get('transport') !== 'messages' ? 'shared' : 'messages';
  for (const input of choices) {
    input.checked = input.value === transport;
    input.disabled = input.value === 'shared' && !isIsolated;
  }
}

function toAddress() {
  const address = new URL(location.href);
  const { workers, transport } = setup();
  address.searchParams.set('workers', String(workers));
  address.searchParams.set('transport', transport);
  history.replaceState(null, '', address);
}

function describe() {
  const { workers } = setup();
  $('workers-value').textContent = workers;
  const has = cores
    ? `This machine offers <b>${cores}</b> core${cores === 1 ? '' : 's'}.`
    : 'This browser does not say how many cores there are.';
  const shares = !cores
    ? ''
    : workers > cores
      ? ` ${workers} workers are more than that, so they take turns: it works, but is no faster.`
      : workers > 1
        ? ' Each worker can have one for itself.'
        : '';
  $('machine').innerHTML = has + shares;
}

/** Why there is no shared memory. */
function explain() {
  $('isolation').hidden = isIsolated;
  $('isolation').innerHTML =
    'Messages are all there is here: browsers give shared memory only to pages that are cross-origin isolated. For ' +
    'that a server sends the headers <code>Cross-Origin-Opener-Policy: same-origin</code> and ' +
    '<code>Cross-Origin-Embedder-Policy: require-corp</code>, as <code>xla-wasm serve</code> does' +
    (globalThis.isSecureContext ? '.' : ', at an address with https or on localhost.');
}

function apply() {
  training.begin(setup());
  collectives.begin(setup());
  times.forget();
}

fromAddress();
describe();
explain();

const training = new TrainingPanel(() => times.stop());
const collectives = new CollectivesPanel(() => times.forget());
const times = new TimesPanel({
  transports: isIsolated ? ['shared', 'messages'] : ['messages'],
  setup,
  chosen: () => ({ opcode: collectives.opcode.name, size: collectives.size }),
  began: () => training.pause(),
});

$('setup').addEventListener('submit', (/** @type {Event} */ event) => event.preventDefault());
$('workers').addEventListener('input', describe);
for (const input of [$('workers'), ...choices]) {
  input.addEventListener('change', () => {
    toAddress();
    apply();
  });
}
apply();
document.body.dataset.ready = 'true';
