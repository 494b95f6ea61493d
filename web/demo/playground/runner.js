// The worker that runs a compiled module, apart from the compiler, so that what never ends can be stopped at no cost.

import { load } from '../../xla_wasm.js';

const scope = /** @type {any} */ (self);
const BUDGET = 250; // milliseconds that go into timing
const GROUP = 4; // milliseconds at least of runs that are timed together

/** @type {import('../../xla_wasm.js').Executable | undefined} */
let exe;

const shown = (/** @type {any} */ { name, element_type, dimensions, kind, bytes }) => ({
  name,
  element_type,
  dimensions,
  kind,
  bytes,
});

// One message after another: of two modules that are loaded at once, the one that was asked for last might be there
// first.
let answered = Promise.resolve();
scope.onmessage = (/** @type {MessageEvent} */ { data }) => {
  answered = answered.then(() => answer(data));
};

/** @param {any} data a message */
async function answer(data) {
  const { id, kind } = data;
  try {
    if (kind === 'load') {
      exe = undefined;
      exe = await load(data.wasm);
      scope.postMessage({ id, inputs: exe.parameters.map(shown), outputs: exe.results.map(shown) });
    } else scope.postMessage({ id, ...run(data.inputs) });
  } catch (error) {
    const { name, message } = /** @type {Error} */ (error);
    scope.postMessage({ id, failure: { kind: name, message } });
  }
}

/** @param {any[]} inputs */
function run(inputs) {
  if (!exe) throw new Error('no module is loaded');
  const outputs = exe.run(...inputs);
  const clock = (/** @type {number} */ runs) => {
    const from = performance.now();
    for (let i = 0; i < runs; i++) exe?.run(...inputs);
    return performance.now() - from;
  };
  // Runs shorter than the clock's tick are timed in groups of some milliseconds. A group may take long once and be too
  // small even so.
  let [group, runs, best] = [1, 0, Infinity];
  for (const end = performance.now() + BUDGET; best === Infinity || performance.now() < end; ) {
    const spent = clock(group);
    runs += group;
    if (spent < GROUP) group *= 2;
    else best = Math.min(best, spent / group);
  }
  return { outputs, milliseconds: best, runs, steps: profile(inputs, best) };
}

/**
 * The mean milliseconds of each step of the table that ran: the least would be zero for steps shorter than the clock's
 * tick. Rounds in which something else had the processor do not count.
 * @param {any[]} inputs
 * @param {number} best milliseconds of a whole run
 */
function profile(inputs, best) {
  if (!exe) return [];
  const names = exe.manifest.steps;
  const sums = new Float64Array(names.length);
  let counted = 0;
  for (
    let round = 0, end = performance.now() + BUDGET;
    counted === 0 || (performance.now() < end && round < 5000);
    round++
  ) {
    const steps = exe.profile(...inputs);
    const total = steps.reduce((sum, [, seconds]) => sum + seconds * 1000, 0);
    if (total > 3 * best + 0.1 && performance.now() < end) continue;
    let at = 0;
    for (const [name, seconds] of steps) {
      while (names[at] !== name) at++;
      sums[at++] += seconds * 1000;
    }
    counted++;
  }
  return Array.from(sums, (sum) => sum / counted);
}
