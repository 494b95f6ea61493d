// Training on several workers and, beside it, on one: the controls, the two teams in turn, the curves and what the
// workers do.

import { load } from '../../xla_wasm.js';
import { Chart, LOSSES } from '../chart.js';
import { judge, loadImages } from '../digits/images.js';
import { $, builds, counted, percent, showError } from '../shared.js';
import { TRANSPORTS } from './programs.js';
import { BATCH, Team } from './team.js';

/** @typedef {import('./programs.js').Setup} Setup */
/** @typedef {import('./team.js').Weights} Weights */
/**
 * @typedef {{images: import('../digits/images.js').Images, weights: Weights, classify:
 *   import('../../xla_wasm.js').Executable}} Basis
 */

const STEPS = 220;
const COMPARE = 11; // steps from one comparison of the weights to the next
const TURN = 400; // milliseconds
const SEED = 1;

/** @param {string} name */
const digits = (name) => load(builds(`../digits/${name}`, import.meta.url));

export class TrainingPanel {
  /** @type {'loading' | 'fresh' | 'running' | 'paused' | 'done' | 'failed'} */
  #state = 'loading';
  /** @type {Setup | undefined} */
  #setup;
  /** @type {Team[]} many workers, one worker */
  #teams = [];
  /** @type {number | undefined} */
  #accuracy;
  #drawing = 0;
  /** What runs or loads notices by this number that it is no longer wanted. */
  #turn = 0;
  /** @type {Promise<void>} the loading or training that is under way */
  #busy = Promise.resolve();
  /** @type {Promise<Basis> | undefined} */
  #basis;

  /** @param {() => void} began called when it takes the machine for itself */
  constructor(began) {
    this.began = began;
    this.loss = new Chart($('loss'), { ...LOSSES, stride: 0.5, formatAt: (at) => `${at} s`, smoothing: 0.8 });
    $('start').addEventListener('click', () => this.#go());
    $('reset').addEventListener('click', () => this.#setup && this.begin(this.#setup));
  }

  /** Forgets all, and makes teams. @param {Setup} setup */
  begin(setup) {
    const turn = ++this.#turn;
    const before = this.#busy;
    this.#setup = setup;
    this.#state = 'loading';
    $('training-error').hidden = true;
    this.#schedule();
    this.#busy = before.then(async () => {
      for (const team of this.#teams) team.dispose();
      this.#teams = [];
      this.#accuracy = undefined;
      if (turn !== this.#turn) return;
      try {
        this.#basis ??= basis();
        const { images, weights } = await this.#basis;
        this.#teams.push(await Team.make(setup, images, weights));
        this.#teams.push(await Team.make({ ...setup, workers: 1 }, images, weights));
        await this.#judge();
        if (turn === this.#turn) this.#state = 'fresh';
      } catch (error) {
        this.#basis = undefined;
        if (turn === this.#turn) this.#fail(error);
      }
      this.#schedule();
    });
  }

  pause() {
    if (this.#state !== 'running') return;
    this.#state = 'paused';
    this.#schedule();
  }

  /** The large button: start, pause, go on, or start again. */
  #go() {
    if (this.#state === 'running') return this.pause();
    if (this.#state === 'done') {
      this.begin(/** @type {Setup} */ (this.#setup));
      this.#busy.then(() => this.#state === 'fresh' && this.#go());
      return;
    }
    this.#state = 'running';
    this.began();
    const turn = this.#turn;
    this.#busy = this.#busy
      .then(() => this.#train(turn))
      .catch((error) => {
        if (turn === this.#turn) this.#fail(error);
      });
    this.#schedule();
  }

  /** The teams in turn, until both are done or it is told to stop. @param {number} turn */
  async #train(turn) {
    const isOn = () => this.#state === 'running' && turn === this.#turn;
    while (isOn()) {
      const open = this.#teams.filter((team) => team.step < STEPS);
      if (!open.length) break;
      for (const team of open) {
        const until = performance.now() + TURN;
        while (isOn() && team.step < STEPS && performance.now() < until) {
          await team.advance();
          if (team === this.#teams[0] && team.step % COMPARE === 0) await this.#judge();
          this.#schedule();
        }
      }
    }
    if (!isOn()) return;
    this.#state = 'done';
    this.#schedule();
    $('announce').textContent = `Training is over. ${this.#compared()}`;
  }

  /** Compares the weights of all workers, and asks them about the images that were held out. */
  async #judge() {
    const [team] = this.#teams;
    const { images, classify } = await /** @type {Promise<Basis>} */ (this.#basis);
    for (const [name, values] of Object.entries(await team.compare())) classify.set(name, values);
    this.#accuracy = judge(images, classify).accuracy;
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#state = 'failed';
    showError('training-error', `The training stopped. ${/** @type {Error} */ (error).message}`);
    this.#schedule();
  }

  #schedule() {
    this.#drawing ||= requestAnimationFrame(() => {
      this.#drawing = 0;
      this.#draw();
    });
  }

  #draw() {
    const state = this.#state;
    const { workers } = /** @type {Setup} */ (this.#setup);
    const [many, one] = this.#teams;
    $('start').textContent =
      { running: 'Pause', paused: 'Go on', done: 'Start again' }[/** @type {string} */ (state)] ?? 'Start';
    $('start').disabled = state === 'loading' || state === 'failed';
    $('reset').disabled = state === 'loading' || (state === 'fresh' && !many?.step);
    document.body.dataset.training = state;
    $('many-name').textContent = counted(workers, 'worker');
    $('progress').value = ((many?.step ?? 0) + (one?.step ?? 0)) / (2 * STEPS);
    if (state === 'loading') $('status').textContent = `Starting ${counted(workers, 'worker')}, and one`;
    else if (state === 'failed') $('status').textContent = 'Failed';
    else {
      const by = workers > 1 ? `, data by ${TRANSPORTS[many.group.transport]}` : '';
      $('status').textContent = `Step ${many.step} of ${STEPS}${by}. One worker: step ${one.step}`;
    }
    const [speed, single] = [many, one].map((team) =>
      team?.spent ? (team.step * BATCH * 1000) / team.spent : undefined,
    );
    $('speed').textContent = rounded(speed);
    $('speed-one').textContent = rounded(single);
    $('ratio').textContent = speed && single ? `${(speed / single).toFixed(2)} ×` : '–';
    $('share').textContent = many?.spent
      ? percent(many.exchanging.reduce((a, b) => a + b) / many.spent / many.count)
      : '–';
    $('accuracy').textContent = this.#accuracy === undefined ? '–' : percent(this.#accuracy);
    for (const [id, team] of Object.entries({ many, one }))
      $(`loss-${id}`).textContent = (team && this.loss.latest(team.losses)?.toFixed(3)) ?? '–';
    const series = [
      { name: 'one', points: one?.losses ?? [] },
      { name: 'many', points: many?.losses ?? [] },
    ];
    const end = Math.max(2, ...series.map(({ points }) => points.at(-1)?.[0] ?? 0));
    this.loss.show(series, end, `Loss over seconds. ${this.#compared()}`);
    this.#drawCrew();
  }

  /** The two trainings in words. */
  #compared() {
    const said = this.#teams.map(({ count, losses, step, spent }) => {
      const now = this.loss.latest(losses);
      return now === undefined
        ? ''
        : `On ${counted(count, 'worker')}: from ${losses[0][1].toFixed(2)} to ${now.toFixed(3)} in ${step} steps, ` +
            `${(spent / 1000).toFixed(1)} s. `;
    });
    return said.join('').trim() || 'No values yet.';
  }

  #drawCrew() {
    const { workers } = /** @type {Setup} */ (this.#setup);
    const [team] = this.#teams;
    const body = $('crew');
    if (body.rows.length !== workers)
      body.replaceChildren(...Array.from({ length: workers }, (_, worker) => crewRow(worker)));
    for (let worker = 0; worker < workers; worker++) {
      const share = team?.spent ? Math.min(1, team.exchanging[worker] / team.spent) : 0;
      const [, bar, weights] = body.rows[worker].cells;
      const [computing, exchanging] = bar.querySelectorAll('i');
      computing.style.width = team?.spent ? `${100 * (1 - share)}%` : '0';
      exchanging.style.width = `${100 * share}%`;
      bar.firstChild.setAttribute('aria-label', team?.spent ? `${percent(share)} in exchanges` : 'nothing yet');
      weights.firstChild.textContent = team?.fingerprints[worker] ?? '–';
    }
    const { count, same } = team?.checks ?? { count: 0, same: true };
    const verdict = $('identical');
    verdict.classList.toggle('same', count > 1 && same && workers > 1);
    verdict.classList.toggle('differ', !same);
    if (!same) verdict.textContent = 'The weights of the workers differ.';
    else if (workers === 1) verdict.textContent = 'There is one worker: nothing to compare, and nothing to exchange.';
    else if (count < 2) verdict.textContent = 'Every eleven steps the weights of all workers are compared, bit by bit.';
    else
      verdict.textContent =
        `The weights of all ${workers} workers were the same, bit by bit, each of ${count} ` +
        `times that they were compared.`;
  }
}

/**
 * What all teams begin with.
 * @returns {Promise<Basis>}
 */
async function basis() {
  const [images, initial, classify] = await Promise.all([
    loadImages(new URL('../digits/images.bin', import.meta.url)),
    digits('initial'),
    digits('classify'),
  ]);
  const arrays = initial.run(Uint32Array.of(0, SEED));
  return { images, classify, weights: Object.fromEntries(initial.results.map(({ name }, i) => [name, arrays[i]])) };
}

/** @param {number} worker */
function crewRow(worker) {
  const row = document.createElement('tr');
  row.dataset.worker = String(worker);
  row.innerHTML =
    `<th scope="row"><span class="unseen">Worker </span><span class="badge">${worker}</span></th><td ` +
    `class="wide"><span class="bar" role="img"><i class="computing"></i><i ` +
    `class="exchanging"></i></span></td><td><code></code></td>`;
  return row;
}

/** @param {number | undefined} value */
const rounded = (value) => (value === undefined ? '–' : Math.round(value).toLocaleString('en'));
