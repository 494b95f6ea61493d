// The race on the page of figures: it starts the worker in which the libraries compute in turns, and draws what that
// tells. The other libraries are fetched when the visitor asks for the race, and not before.

import '../isolation.js';
import { $, showError } from '../shared.js';
import { WORKLOADS } from './workloads.js';

/** @typedef {import('./worker.js').Entry} Entry */
/** @typedef {{title: string, version: string, bytes: number}} Peer */
/** @typedef {{workload: string, entries: Entry[], peak: number, fused: boolean}} Outcome peak in GFLOP/s */

// `?rounds=1&sample=1` makes it short, for tests.
const given = new URLSearchParams(location.search);
const ROUNDS = Number(given.get('rounds') ?? 12);
const SAMPLE = Number(given.get('sample') ?? 30); // milliseconds

/** @type {{operations: number, peers: Record<string, Peer>}} */
let about;
/** @type {Worker | undefined} */
let worker;
/** @type {Map<string, string>} */
const failed = new Map();
/** @type {Map<string, Outcome>} */
const outcomes = new Map();

/** @param {string} name of a contestant */
const title = (name) => about.peers[name]?.title ?? name;

/** @param {number} milliseconds */
function duration(milliseconds) {
  const [value, unit] = milliseconds < 1 ? [milliseconds * 1000, 'µs'] : [milliseconds, 'ms'];
  return `${value.toPrecision(value < 100 ? 2 : 3)} ${unit}`;
}

/** @param {number} ratio */
const times = (ratio) => `${ratio < 10 ? ratio.toFixed(2) : ratio.toFixed(0)}×`;

/** A difference relative to the largest value. @param {number} value */
const relative = (value) => (value === 0 ? '0' : Number.isFinite(value) ? value.toExponential(0) : 'not a number');

/** @param {string} name @param {string} [text] @param {string} [kind] */
function element(name, text = '', kind = '') {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

/** Whether what a contestant gave is what xla_wasm gave. @param {Entry} entry @param {number} tolerance */
const agrees = (entry, tolerance) => entry.difference !== undefined && entry.difference <= tolerance;

/**
 * A workload: what each takes, as bars of one scale, and the line that the machine's multiply-adds draw.
 * @param {import('./workloads.js').Workload} workload
 * @param {Entry[]} entries
 * @param {number} peak in GFLOP/s
 */
function drawn(workload, entries, peak) {
  const own = entries[0].milliseconds ?? Infinity;
  const least = workload.operations / peak / 1e6;
  const right = entries.filter((entry) => entry.milliseconds !== undefined && agrees(entry, workload.tolerance));
  const most = Math.max(least, ...right.map(({ milliseconds }) => /** @type {number} */ (milliseconds)));
  const lines = entries.map((entry) => {
    const item = element('li', '', entry.name === 'xla_wasm' ? 'own' : '');
    item.append(element('span', title(entry.name), 'who'));
    if (!right.includes(entry)) {
      const why = entry.error ? `failed: ${entry.error}` : `another result: ${relative(entry.difference ?? NaN)} apart`;
      item.append(element('span', why, 'why'));
      return item;
    }
    const spent = /** @type {number} */ (entry.milliseconds);
    item.append(element('span', duration(spent), 'spent'), element('strong', times(spent / own), 'ratio'));
    const track = element('span', '', 'track');
    track.setAttribute('aria-hidden', 'true');
    const fill = element('span', '', 'fill');
    fill.style.width = `${(100 * spent) / most}%`;
    const limit = element('span', '', 'limit');
    limit.style.left = `${(100 * least) / most}%`;
    track.append(fill, limit);
    item.append(track);
    return item;
  });
  const part = element('section', '', 'heat');
  const heading = element('h3', workload.title);
  heading.append(element('small', ` ${workload.what}`));
  const bars = element('ol');
  bars.append(...lines);
  const rate = workload.operations / own / 1e6;
  const share = `${rate.toFixed(rate < 10 ? 1 : 0)} GFLOP/s, ${((100 * rate) / peak).toFixed(0)} % of the peak`;
  part.append(
    heading,
    bars,
    element(
      'p',
      `xla_wasm: ${share}. Results differ by ${differences(entries)} of the largest value; ${relative(workload.tolerance)} is allowed.`,
      'note',
    ),
  );
  return part;
}

/** @param {Entry[]} entries */
function differences(entries) {
  const apart = entries.slice(1).flatMap(({ difference }) => (difference === undefined ? [] : [difference]));
  return apart.length ? `at most ${relative(Math.max(...apart))}` : 'nothing, since nobody else ran,';
}

function draw() {
  const peak = Math.max(...[...outcomes.values()].map((outcome) => outcome.peak));
  const drawings = WORKLOADS.flatMap((workload) => {
    const outcome = outcomes.get(workload.name);
    return outcome ? [drawn(workload, outcome.entries, peak)] : [];
  });
  $('heats').replaceChildren(...drawings);
  const last = [...outcomes.values()].at(-1);
  $('outcome').hidden = !last;
  if (!last) return;
  const kind = last.fused ? 'fused multiply-adds' : 'multiplications and additions, for it has no fused ones';
  $('peak').textContent = `${peak.toFixed(1)} GFLOP/s of ${kind}`;
}

/** In a sentence, how it went. */
function summary() {
  const all = [...outcomes].map(([name, { entries }]) => {
    const { tolerance } = /** @type {import('./workloads.js').Workload} */ (WORKLOADS.find((w) => w.name === name));
    return { entries, tolerance };
  });
  const others = all.flatMap(({ entries, tolerance }) => entries.slice(1).map((entry) => ({ entry, tolerance })));
  const missing = [...failed].map(([name, error]) => `Without ${title(name)}: ${error}`);
  if (!others.length) return ['xla_wasm ran alone.', ...missing].join(' ');
  const wrong = others.filter(({ entry, tolerance }) => !agrees(entry, tolerance)).length;
  const first = all.filter(({ entries: [own, ...rest] }) => {
    const spent = rest.flatMap(({ milliseconds }) => milliseconds ?? []);
    return spent.length && spent.every((milliseconds) => (own.milliseconds ?? Infinity) <= milliseconds);
  }).length;
  const agreement = wrong ? `Wrong or missing: ${wrong} of ${others.length} results.` : 'All results agree.';
  return [`xla_wasm was the fastest in ${first} of ${all.length}. ${agreement}`, ...missing].join(' ');
}

/** @param {'fresh' | 'racing' | 'done' | 'stopped'} state */
function enter(state) {
  document.body.dataset.race = state;
  $('race').disabled = state === 'racing';
  $('stop').hidden = state !== 'racing';
  if (state !== 'racing') {
    worker?.terminate();
    worker = undefined;
  }
}

/** Says what a race fetches, or has fetched. @param {boolean} [done] */
function offer(done) {
  const peers = Object.values(about.peers);
  const bytes = peers.reduce((sum, peer) => sum + peer.bytes, 0);
  const names = peers.map((peer) => `${peer.title} ${peer.version}`).join(' and ');
  const fetched = `${done ? 'Fetched' : 'Fetches'} ${(bytes / 1e6).toFixed(1)} MB from ${location.host}: ${names}.`;
  $('cost').textContent = peers.length
    ? `${fetched} Nothing leaves this page.`
    : 'This site has no copies of the other libraries, so xla_wasm runs alone. `./build.sh serve` and `site` make them.';
}

function start() {
  outcomes.clear();
  failed.clear();
  draw();
  $('race-error').hidden = true;
  enter('racing');
  worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => {
    if (data.loading) $('says').textContent = `Fetching ${title(data.loading)}`;
    if (data.without) failed.set(data.without, data.error);
    if (data.computing) {
      const index = WORKLOADS.findIndex(({ name }) => name === data.computing);
      $('says').textContent = `${index + 1} of ${WORKLOADS.length}: ${WORKLOADS[index].title}`;
    }
    if (data.workload) {
      outcomes.set(data.workload, data);
      draw();
    }
    if (data.done) {
      $('says').textContent = summary();
      $('race').textContent = 'Race again';
      offer(true);
      enter('done');
    }
    if (data.failed) fail(data.failed);
  };
  worker.onerror = (event) => fail(event.message || 'the worker did not start');
  worker.postMessage({ rounds: ROUNDS, sample: SAMPLE, operations: about.operations, peers: Object.keys(about.peers) });
}

/** @param {string} why */
function fail(why) {
  showError('race-error', `The race has ended. ${why}`);
  $('says').textContent = '';
  enter('stopped');
}

$('race').addEventListener('click', start);
$('stop').addEventListener('click', () => {
  $('says').textContent = 'Stopped.';
  enter('stopped');
});
try {
  const answer = await fetch(new URL('race.json', import.meta.url));
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
  about = await answer.json();
  enter('fresh');
  offer();
} catch (error) {
  fail(`It needs a file that could not be fetched. ${/** @type {Error} */ (error).message}`);
}
document.body.dataset.ready = 'true';
