// What a collective does to a few values, and what its exchanges send at the size that is chosen. Both are what a run
// did.

import { $, chosen, showError } from '../shared.js';
import { FEW, OPCODES, SIZES, instruction, lengthOf, loadCollective, size } from './programs.js';
import { Ring, told, total } from './ring.js';

/** @typedef {import('./programs.js').ExchangeEvent} ExchangeEvent */
/** @typedef {import('./programs.js').Opcode} Opcode */
/** @typedef {import('./programs.js').Setup} Setup */
/** @typedef {import('./ring.js').Sending} Sending */

export class CollectivesPanel {
  /** @type {Setup | undefined} */
  #setup;
  /** What loads notices by this number that it is no longer wanted. */
  #turn = 0;
  /** @type {Promise<void>} */
  #busy = Promise.resolve();
  /** @type {Sending[][]} */
  #exchanges = [];

  /** @param {() => void} changed called when there is another collective or size */
  constructor(changed) {
    this.ring = new Ring($('ring'));
    OPCODES.forEach(({ name }, i) => {
      const label = document.createElement('label');
      const input = Object.assign(document.createElement('input'), {
        type: 'radio',
        name: 'opcode',
        value: name,
        checked: !i,
      });
      input.addEventListener('change', () => {
        changed();
        this.#renew();
      });
      label.append(input, name);
      $('opcodes').append(label);
    });
    $('size').addEventListener('input', () => this.#showSize());
    $('size').addEventListener('change', () => {
      changed();
      this.#renew();
    });
    $('again').addEventListener('click', () => this.#play());
    this.#showSize();
  }

  /** @returns {Opcode} */
  get opcode() {
    return OPCODES.find(({ name }) => name === chosen('opcode')) ?? OPCODES[0];
  }

  /** Bytes. */
  get size() {
    return SIZES[$('size').valueAsNumber];
  }

  /** @param {Setup} setup */
  begin(setup) {
    this.#setup = setup;
    this.#renew();
  }

  #showSize() {
    $('size-value').textContent = size(this.size);
    $('size').setAttribute('aria-valuetext', size(this.size));
  }

  /** Runs what is chosen now. */
  #renew() {
    const turn = ++this.#turn;
    const { opcode, size: bytes } = this;
    const setup = /** @type {Setup} */ (this.#setup);
    document.body.dataset.collective = 'loading';
    document.body.dataset.shown = 'nothing';
    $('collective-error').hidden = true;
    $('again').disabled = true;
    $('does').textContent = opcode.does;
    $('sent').textContent = 'Running';
    this.ring.seat(setup.workers);
    this.#busy = this.#busy.then(async () => {
      if (turn !== this.#turn) return;
      try {
        await this.#few(opcode, setup);
        if (turn !== this.#turn) return;
        const exchanges = await observed(opcode, bytes, setup);
        if (turn !== this.#turn) return;
        this.#exchanges = exchanges;
        $('matrices').replaceChildren(
          ...exchanges.map((sendings, i) =>
            matrix(sendings, setup.workers, exchanges.length > 1 ? `Exchange ${i + 1}` : ''),
          ),
        );
        $('again').disabled = false;
        document.body.dataset.collective = 'shown';
        this.#play();
      } catch (error) {
        if (turn !== this.#turn) return;
        document.body.dataset.collective = 'failed';
        $('sent').textContent = '';
        showError('collective-error', `This could not be run. ${/** @type {Error} */ (error).message}`);
      }
    });
  }

  /**
   * A run on a value for each worker, or as many as there are workers.
   * @param {Opcode} opcode
   * @param {Setup} setup
   */
  async #few(opcode, setup) {
    const group = await loadCollective(opcode.name, FEW, setup);
    try {
      const length = lengthOf(group, 'x');
      const before = Array.from({ length: setup.workers }, (_, worker) =>
        Float32Array.from({ length }, (_, i) => 10 * worker + i),
      );
      await Promise.all(before.map((values, worker) => group.set('x', values, worker)));
      await group.runReplicated(before.map(() => [1]));
      const after = await Promise.all(before.map((_, worker) => group.get('y', worker)));
      $('hlo').textContent = instruction(opcode, group);
      $('values').replaceChildren(
        ...before.map((values, worker) => valuesRow(worker, values, after[worker], !!opcode.adds && setup.workers > 1)),
      );
      $('values').classList.add('pending');
    } finally {
      group.dispose();
    }
  }

  #play() {
    const exchanges = this.#exchanges;
    const { workers } = /** @type {Setup} */ (this.#setup);
    const lines = exchanges.map((sendings) => told(sendings, workers));
    const all = total(exchanges.flat());
    const alike = lines.every((line) => line === lines[0]);
    const summary = alike
      ? `${lines.length > 1 ? `In each of ${lines.length} exchanges, ` : ''}${lines[0]}`
      : lines.map((line, i) => `In exchange ${i + 1}, ${line}`).join('. ');
    const end = all ? `${capital(summary)}: <b>${size(all)}</b> in all.` : 'There is nobody to send to.';
    $('values').classList.add('pending');
    this.ring.play(exchanges, end.replace(/<.?b>/g, ''), (now) => {
      const isOver = now === exchanges.length || !all;
      $('sent').innerHTML = isOver
        ? end
        : capital(`${lines.length > 1 ? `exchange ${now + 1} of ${lines.length}: ` : ''}${lines[now]}`);
      $('values').classList.toggle('pending', !isOver);
      document.body.dataset.shown = isOver ? 'all' : String(now);
    });
  }
}

/**
 * What each exchange of a run sent from one worker to another.
 * @param {Opcode} opcode
 * @param {number} bytes
 * @param {Setup} setup
 */
async function observed(opcode, bytes, setup) {
  /** @type {ExchangeEvent[][]} by worker */
  const events = Array.from({ length: setup.workers }, () => []);
  const group = await loadCollective(opcode.name, bytes, setup, (event) => events[event.device].push(event));
  try {
    await group.set('x', new Float32Array(lengthOf(group, 'x')));
    await group.runReplicated(events.map(() => [1]));
  } finally {
    group.dispose();
  }
  // All workers run the same program, so the first exchange of one is the first of all.
  return Array.from({ length: Math.max(...events.map((own) => own.length)) }, (_, i) =>
    events.flatMap((own, from) =>
      (own[i]?.to ?? []).filter((to) => to !== from).map((to) => ({ from, to, bytes: own[i].bytes })),
    ),
  ).filter((sendings) => sendings.length);
}

/**
 * @param {number} worker
 * @param {Float32Array} before
 * @param {Float32Array} after
 * @param {boolean} adds
 */
function valuesRow(worker, before, after, adds) {
  const row = document.createElement('tr');
  const head = document.createElement('th');
  head.scope = 'row';
  head.innerHTML = `<span class="unseen">Worker </span><span class="badge" data-worker="${worker}">${worker}</span>`;
  row.append(head, cells(before, 'before', false), cells(after, 'after', adds));
  return row;
}

/**
 * Values in the colour of the worker that had them first, or as sums.
 * @param {Float32Array} values
 * @param {string} name
 * @param {boolean} adds
 */
function cells(values, name, adds) {
  const data = document.createElement('td');
  const list = document.createElement('div');
  data.className = name;
  list.className = 'cells';
  for (const value of values) {
    const cell = document.createElement('span');
    cell.className = adds ? 'cell sum' : 'cell';
    if (!adds) cell.dataset.worker = String(Math.floor(value / 10));
    cell.textContent = String(value);
    list.append(cell, ' ');
  }
  data.append(list);
  return data;
}

/**
 * @param {Sending[]} sendings
 * @param {number} workers
 * @param {string} caption
 */
function matrix(sendings, workers, caption) {
  const table = document.createElement('table');
  if (caption) table.createCaption().textContent = caption;
  const numbers = Array.from({ length: workers }, (_, i) => i);
  const head = table.createTHead().insertRow();
  head.innerHTML = `<th scope="col">from \\ to</th>${numbers.map((to) => `<th scope="col">${to}</th>`).join('')}`;
  const body = table.createTBody();
  for (const from of numbers) {
    const row = body.insertRow();
    row.innerHTML = `<th scope="row">${from}</th>`;
    for (const to of numbers) {
      const bytes = total(sendings.filter((sending) => sending.from === from && sending.to === to));
      row.insertCell().textContent = bytes ? size(bytes) : '·';
    }
  }
  return table;
}

/** @param {string} text */
const capital = (text) => text[0].toUpperCase() + text.slice(1);
