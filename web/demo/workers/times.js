// How long collectives take, through shared memory and by messages.

import { $, counted, showError } from '../shared.js';
import { OPCODES, TRANSPORTS, lengthOf, loadCollective, size } from './programs.js';

/** @typedef {import('./programs.js').Setup} Setup */
/** @typedef {import('./programs.js').Transport} Transport */
/** @typedef {{least: number, median: number, turns: number}} Time microseconds */

const RUNS = 9;
const ENOUGH = 30; // milliseconds of a run
const MOST = 1 << 16; // turns of the loop in a run

export class TimesPanel {
  /** @type {Map<string, Partial<Record<Transport, Time>>>} by opcode */
  #times = new Map();
  /** What measures notices by this number that it is no longer wanted. */
  #turn = 0;
  /** @type {Promise<void>} */
  #busy = Promise.resolve();

  /**
   * @param {object} page
   * @param {Transport[]} page.transports those that there are
   * @param {() => Setup} page.setup
   * @param {() => {opcode: string, size: number}} page.chosen
   * @param {() => void} page.began called when it takes the machine for itself
   */
  constructor(page) {
    this.page = page;
    $('measure').addEventListener('click', () => this.#start([page.chosen().opcode]));
    $('measure-all').addEventListener('click', () => this.#start(OPCODES.map(({ name }) => name)));
    this.forget();
    for (const id of ['measure', 'measure-all']) $(id).disabled = false;
  }

  /** The times were of other workers or sizes. */
  forget() {
    this.stop();
    this.#times.clear();
    this.#draw();
    this.#say('');
  }

  stop() {
    this.#turn++;
    if (document.body.dataset.measuring === 'yes') this.#say('Stopped.');
    document.body.dataset.measuring = 'no';
  }

  /** @param {string[]} opcodes */
  #start(opcodes) {
    const turn = ++this.#turn;
    const { workers } = this.page.setup();
    const { size: bytes } = this.page.chosen();
    $('collective-error').hidden = true;
    document.body.dataset.measuring = 'yes';
    this.page.began();
    this.#busy = this.#busy.then(async () => {
      try {
        for (const opcode of opcodes) {
          for (const transport of this.page.transports) {
            if (turn !== this.#turn) return;
            this.#say(
              `Measuring ${opcode} on ${counted(workers, 'worker')}, ${size(bytes)}, by ${TRANSPORTS[transport]}`,
            );
            const time = await measured(opcode, bytes, { workers, transport }, () => turn !== this.#turn);
            if (!time) return;
            this.#times.set(opcode, { ...this.#times.get(opcode), [transport]: time });
            this.#draw();
          }
        }
        this.#say(`${counted(workers, 'worker')}, ${size(bytes)}: the least time of ${RUNS} runs, and the median`);
        document.body.dataset.measuring = 'done';
      } catch (error) {
        if (turn !== this.#turn) return;
        this.#say('');
        document.body.dataset.measuring = 'failed';
        showError('collective-error', `This could not be measured. ${/** @type {Error} */ (error).message}`);
      }
    });
  }

  /** @param {string} text */
  #say(text) {
    $('measuring').textContent = text || 'Of the collective, the workers and the size that are chosen above.';
  }

  #draw() {
    const longest = Math.max(
      ...[...this.#times.values()].flatMap((times) => Object.values(times).map(({ least }) => least)),
    );
    $('times').replaceChildren(
      ...OPCODES.map(({ name }) => {
        const row = document.createElement('tr');
        const head = document.createElement('th');
        head.scope = 'row';
        head.textContent = name;
        row.append(
          head,
          ...['shared', 'messages'].map((transport) =>
            this.#cell(/** @type {Transport} */ (transport), this.#times.get(name), longest),
          ),
        );
        return row;
      }),
    );
  }

  /**
   * @param {Transport} transport
   * @param {Partial<Record<Transport, Time>> | undefined} times
   * @param {number} longest
   */
  #cell(transport, times, longest) {
    const cell = document.createElement('td');
    const time = times?.[transport];
    cell.className = transport === 'shared' ? 'many' : 'one';
    if (!time) {
      cell.textContent = this.page.transports.includes(transport) ? '–' : 'not on this page';
      return cell;
    }
    cell.innerHTML = '<b></b> <small></small><span class="length"><i></i></span>';
    const [least, median, , bar] = cell.querySelectorAll('b, small, span, i');
    least.textContent = micro(time.least);
    median.textContent = `median ${micro(time.median)}`;
    /** @type {HTMLElement} */ (bar).style.width = `${Math.max(0.5, (100 * time.least) / longest)}%`;
    return cell;
  }
}

/**
 * @param {string} opcode
 * @param {number} bytes
 * @param {Setup} setup
 * @param {() => boolean} isOver whether nobody wants to know any more
 * @returns {Promise<Time | undefined>} of one collective
 */
async function measured(opcode, bytes, setup, isOver) {
  const group = await loadCollective(opcode, bytes, setup);
  try {
    await group.set('x', new Float32Array(lengthOf(group, 'x')).fill(1));
    const run = async (/** @type {number} */ turns) => {
      const lists = Array.from({ length: setup.workers }, () => [turns]);
      const begin = performance.now();
      await group.runReplicated(lists);
      return performance.now() - begin;
    };
    // Turns for a run that the clock can tell, and that outweighs the calls to the workers.
    let turns = 1;
    for (let took = await run(1); took < ENOUGH && turns < MOST; took = await run(turns)) {
      if (isOver()) return undefined;
      turns = Math.min(MOST, turns * Math.max(2, Math.ceil((0.7 * ENOUGH) / Math.max(took, 0.1))));
    }
    const times = [];
    for (let i = 0; i < RUNS; i++) {
      if (isOver()) return undefined;
      times.push(((await run(turns)) / turns) * 1000);
    }
    times.sort((a, b) => a - b);
    return { least: times[0], median: times[times.length >> 1], turns };
  } finally {
    group.dispose();
  }
}

/** @param {number} time microseconds */
function micro(time) {
  if (time >= 1e6) return `${(time / 1e6).toFixed(2)} s`;
  if (time >= 1000) return `${(time / 1000).toPrecision(3)} ms`;
  return time < 0.1 ? '< 0.1 µs' : `${time.toPrecision(time < 1 ? 1 : 3)} µs`;
}
