// Races the libraries in turns, on one thread that is not the page's, and tells the page what it finds.

import { seeded } from '../shared.js';
import { CONTESTANTS, difference } from './contestants.js';
import { WORKLOADS } from './workloads.js';

/** @typedef {{name: string, milliseconds?: number, difference?: number, error?: string}} Entry */
/**
 * @typedef {object} Settings
 * @property {number} rounds how often each has its turn
 * @property {number} sample how long that is at least, in milliseconds
 * @property {number} operations of a run of the module that multiplies and adds
 * @property {string[]} peers that race with xla_wasm
 */

const scope = /** @type {any} */ (self);
const WARM = 200; // milliseconds
const PEAKS = [
  { name: 'peak.relaxed.wasm', fused: true },
  { name: 'peak.wasm', fused: false },
];

scope.onmessage = async (/** @type {MessageEvent<Settings>} */ { data }) => {
  try {
    await race(data);
    postMessage({ done: true });
  } catch (error) {
    postMessage({ failed: String(error) });
  }
};

/** @param {Settings} settings */
async function race(settings) {
  /** @type {Map<string, import('./contestants.js').Prepare>} */
  const ready = new Map();
  for (const name of ['xla_wasm', ...settings.peers]) {
    try {
      if (name !== 'xla_wasm') postMessage({ loading: name });
      ready.set(name, await CONTESTANTS[name]());
    } catch (error) {
      postMessage({ without: name, error: String(error) });
    }
  }
  const peak = await multiplyAdds(settings);
  for (const workload of WORKLOADS) {
    postMessage({ computing: workload.name });
    const entries = await compared(workload, ready, settings, peak.measure);
    postMessage({ workload: workload.name, entries, peak: peak.best(), fused: peak.fused });
  }
}

/**
 * Prepares a workload for all, compares what they give, and has them compute in turns.
 * @param {import('./workloads.js').Workload} workload
 * @param {Map<string, import('./contestants.js').Prepare>} contestants
 * @param {Settings} settings
 * @param {() => void} between
 */
async function compared(workload, contestants, settings, between) {
  const random = seeded(1);
  const weights = arrays(workload.weights, random);
  const inputs = arrays(workload.inputs, random);
  /** @type {Entry[]} */
  const entries = [];
  /** @type {{entry: Entry, run: () => unknown, release: () => unknown, times: number}[]} */
  const lanes = [];
  /** @type {Float32Array[] | undefined} */
  let expected;
  for (const [name, prepare] of contestants) {
    const entry = /** @type {Entry} */ ({ name });
    entries.push(entry);
    try {
      const { run, release } = await prepare(workload, weights, inputs);
      // A library may give views of its own memory.
      const results = (await run()).map((array) => Float32Array.from(array));
      expected ??= results;
      entry.difference = difference(workload, name, results, expected);
      lanes.push({ entry, run, release, times: 1 });
    } catch (error) {
      if (name === 'xla_wasm') throw error;
      entry.error = String(error);
    }
  }
  for (const lane of lanes) {
    // Engines optimise what has run for a while.
    let milliseconds = 0;
    while (milliseconds < settings.sample) {
      milliseconds = await timed(lane.run, lane.times);
      if (milliseconds < settings.sample) {
        lane.times = Math.ceil(lane.times * Math.min(10, Math.max(1.5, (1.2 * settings.sample) / milliseconds)));
      }
    }
  }
  for (let round = 0; round < settings.rounds; round++) {
    between();
    for (const lane of lanes) {
      const milliseconds = (await timed(lane.run, lane.times)) / lane.times;
      lane.entry.milliseconds = Math.min(lane.entry.milliseconds ?? Infinity, milliseconds);
    }
  }
  for (const lane of lanes) await lane.release();
  return entries;
}

/** @param {() => unknown} run @param {number} times */
async function timed(run, times) {
  const begin = performance.now();
  for (let i = 0; i < times; i++) {
    const made = run();
    if (made instanceof Promise) await made;
  }
  return performance.now() - begin;
}

/** @param {Record<string, import('./workloads.js').Drawn>} wanted @param {() => number} random */
function arrays(wanted, random) {
  /** @type {Record<string, Float32Array>} */
  const made = {};
  for (const [name, { shape, scale, mean = 0 }] of Object.entries(wanted)) {
    const width = 12 ** 0.5 * scale; // of a range whose standard deviation is the scale
    const array = new Float32Array(shape.reduce((product, size) => product * size, 1));
    for (let i = 0; i < array.length; i++) array[i] = mean + width * (random() - 0.5);
    made[name] = array;
  }
  return made;
}

/**
 * Chains of multiply-adds in registers: fused ones where the engine has them, else multiplications and additions.
 * @param {Settings} settings
 */
async function multiplyAdds(settings) {
  for (const { name, fused } of PEAKS) {
    const answer = await fetch(new URL(name, import.meta.url));
    if (!answer.ok) throw new Error(`cannot fetch ${answer.url}: ${answer.status}`);
    const bytes = await answer.arrayBuffer();
    if (fused && !WebAssembly.validate(bytes)) continue;
    const { instance } = await WebAssembly.instantiate(bytes);
    const { run } = /** @type {any} */ (instance.exports);
    let best = 0;
    // The engine optimises what has run for a while.
    const warm = performance.now() + WARM;
    while (performance.now() < warm) run();
    const measure = () => {
      let calls = 0;
      const begin = performance.now();
      do {
        run();
        calls++;
      } while (performance.now() - begin < settings.sample);
      best = Math.max(best, (calls * settings.operations) / (performance.now() - begin) / 1e6);
    };
    return { fused, measure, best: () => best };
  }
  throw new Error('this browser has no SIMD');
}
