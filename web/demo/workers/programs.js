// The programs of this page: a training step for each number of workers, and the collectives, each for some workers and
// a size.

import { load } from '../../xla_wasm.js';
import { builds } from '../shared.js';

/** @typedef {import('../../devices/replicated.js').ReplicatedExecutable} Group */
/** @typedef {import('../../devices/exchange.js').ExchangeEvent} ExchangeEvent */
/** @typedef {'shared' | 'messages'} Transport */

/** What a person sets for the whole page. @typedef {{workers: number, transport: Transport}} Setup */

/**
 * @typedef {object} Opcode
 * @property {string} name
 * @property {string} does
 * @property {(workers: number) => string} says the rest of the instruction, as HLO has it
 * @property {boolean} [adds] whether results are sums
 */

/** @type {Opcode[]} */
export const OPCODES = [
  { name: 'all-reduce', does: 'All get the sum of what all have.', says: () => ', to_apply=sum', adds: true },
  { name: 'all-gather', does: 'All get what all have, one after another.', says: () => ', dimensions={0}' },
  {
    name: 'reduce-scatter',
    does: 'Each gets its own block of the sum.',
    says: () => ', dimensions={0}, to_apply=sum',
    adds: true,
  },
  { name: 'all-to-all', does: 'Each sends one block to each: rows become columns.', says: () => ', dimensions={0}' },
  {
    name: 'collective-permute',
    does: 'Each sends what it has to the next.',
    says: (workers) =>
      `, source_target_pairs={${Array.from({ length: workers }, (_, i) => `{${i},${(i + 1) % workers}}`).join(',')}}`,
  },
  { name: 'collective-broadcast', does: 'All get what the first has.', says: () => '' },
];

export const SIZES = Array.from({ length: 6 }, (_, i) => 4 ** (i + 1) * 1024); // bytes
export const FEW = 0; // the size of programs with a value for each worker

/** @param {string} name */
const address = (name) => new URL(name, import.meta.url);

/** @type {Promise<string> | undefined} */
let script;

/** The address of the script that workers run: what was fetched once for all, or the file where that failed. */
function workerScript() {
  const file = address('worker.js');
  script ??= fetch(file)
    .then((response) => (response.ok ? response.blob() : Promise.reject(response)))
    .then(URL.createObjectURL, () => {
      script = undefined;
      return file.href;
    });
  return script;
}

/**
 * The training step.
 * @param {Setup} setup
 * @param {(event: ExchangeEvent) => void} onExchange
 * @returns {Promise<Group>}
 */
export async function loadStep({ workers, transport }, onExchange) {
  return load(builds(`step-${workers}`, import.meta.url), {
    devices: workers,
    transport,
    worker: await workerScript(),
    onExchange,
  });
}

/**
 * A collective: `x` is what a worker has, `y` what it gets, and a run takes how often to repeat it.
 * @param {string} opcode
 * @param {number} size
 * @param {Setup} setup
 * @param {(event: ExchangeEvent) => void} [onExchange]
 * @returns {Promise<Group>}
 */
export async function loadCollective(opcode, size, { workers, transport }, onExchange) {
  return load(address(`collectives/${opcode}-${workers}-${size}.wasm`), {
    devices: workers,
    transport,
    worker: await workerScript(),
    ...(onExchange && { onExchange }),
  });
}

/**
 * How many elements, or rows, a parameter has on each worker.
 * @param {Group} group
 * @param {string} name
 */
export const lengthOf = (group, name) => group.parameters.find((leaf) => leaf.name === name)?.dimensions[0] ?? 0;

/**
 * The collective as an instruction of HLO.
 * @param {Opcode} opcode
 * @param {Group} group
 */
export function instruction({ name, says }, group) {
  const [x, y] = ['x', 'y'].map((wanted) => lengthOf(group, wanted));
  return `y = f32[${y}] ${name}(f32[${x}] x)${says(group.devices.count)}`;
}

/** Sizes as people say them. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const [amount, unit] = bytes < 2 ** 20 ? [bytes / 1024, 'KiB'] : [bytes / 2 ** 20, 'MiB'];
  return `${Number(amount.toPrecision(3))} ${unit}`;
}

/** @type {Record<Transport, string>} */
export const TRANSPORTS = { shared: 'shared memory', messages: 'messages' };
