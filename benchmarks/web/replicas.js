// Times collectives between devices that are workers, and a plain loop that sums arrays over shared memory. In pages
// and in Node.

/**
 * @typedef {{opcode: string, bytes: number, url: string, times: number}} Program `times` of its collective in a run
 * @typedef {{transports: ('shared' | 'messages')[], devices: number, programs: Program[], seconds: number, plain?:
 *   string}} Job
 */

/** Numbers that are small enough to be added up for long. @param {number} length */
const numbers = (length) => Float32Array.from({ length }, (_, i) => (i % 64) / 64);

/**
 * Contestants in turns, for so many seconds: the least milliseconds of each, by name, operation and bytes.
 * @param {typeof import('../../web/xla_wasm.js')} api
 * @param {Job} job
 */
export async function measure({ load }, { transports, devices, programs, seconds, plain }) {
  const contestants = [];
  for (const { opcode, bytes, url, times } of programs) {
    for (const transport of transports) {
      const group = await load(url, { devices, transport });
      const [length] = group.parameters.find(({ name }) => name === 'x')?.dimensions ?? [];
      await group.set('x', numbers(length));
      const run = (/** @type {number} */ count) => group.runReplicated(Array.from({ length: devices }, () => [count]));
      contestants.push({ name: transport, opcode, bytes, times, run, end: () => group.dispose() });
    }
    if (plain && opcode === 'all-reduce') {
      const loop = new Loop(plain, devices, bytes / 4);
      contestants.push({
        name: 'plain',
        opcode,
        bytes,
        times,
        run: (/** @type {number} */ count) => loop.run(count),
        end: () => loop.end(),
      });
    }
  }
  /** @type {Record<string, Record<string, Record<number, number>>>} */
  const found = {};
  const end = performance.now() + 1000 * seconds;
  for (let round = 0; round < 3 || performance.now() < end; round++) {
    for (const { name, opcode, bytes, times, run } of contestants) {
      const begin = performance.now();
      await run(times);
      const spent = (performance.now() - begin) / times;
      const place = ((found[name] ??= {})[opcode] ??= {});
      place[bytes] = Math.min(place[bytes] ?? Infinity, spent);
    }
  }
  for (const contestant of contestants) contestant.end();
  return found;
}

/** Workers that sum arrays with a loop. */
class Loop {
  #workers;

  /**
   * @param {string} script
   * @param {number} count
   * @param {number} length
   */
  constructor(script, count, length) {
    const shared = new SharedArrayBuffer(64 + 4 * count * length);
    this.#workers = Array.from({ length: count }, (_, own) => {
      const worker = new Worker(script);
      worker.postMessage({ shared, count, own, x: numbers(length) });
      return worker;
    });
  }

  /** @param {number} times */
  run(times) {
    const answered = (/** @type {Worker} */ worker) => new Promise((resolve) => (worker.onmessage = resolve));
    for (const worker of this.#workers) worker.postMessage({ times });
    return Promise.all(this.#workers.map(answered));
  }

  end() {
    for (const worker of this.#workers) worker.terminate();
  }
}
