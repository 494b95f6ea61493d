// Runs artifacts without threads, on one thread and on two, in turns, in Node or in a page; of each the milliseconds of
// its fastest run in each round.

/** @type {[string, string, { threads?: number }][]} the name, the end of the file, and options of `load` */
const OURS = [
  ['plain', '.plain.wasm', {}],
  ['ours 1', '.wasm', { threads: 1 }],
  ['ours 2', '.wasm', { threads: 2 }],
];

/** @typedef {{name: string, inputs: string[], weights: [string, string][]}} Work */

/**
 * Where memory bounds a run, its time differs by a tenth with the pages that the memory happens to get: so each artifact
 * is loaded several times.
 *
 * @param {any} api the loader
 * @param {(name: string) => Promise<ArrayBuffer>} read
 * @param {{works: Work[], seconds: number, loads: number, least: number}} job
 * @param {(work: any) => Promise<Record<string, () => unknown>>} [others] contestants beside ours
 */
export async function measure(api, read, { works, seconds, loads, least }, others = async () => ({})) {
  /** @type {Record<string, Record<string, number[]>>} */
  const found = {};
  for (const work of works) {
    /** @type {Record<string, number[]>} */
    const times = {};
    const peers = await others(work);
    for (let load = 0; load < loads; load++) {
      const { contestants, dispose } = await ours(api, read, work);
      await race({ ...contestants, ...peers }, times, (1000 * seconds) / loads, least);
      dispose();
    }
    found[work.name] = times;
  }
  return found;
}

/**
 * A run of each of OURS.
 *
 * @param {any} api
 * @param {(name: string) => Promise<ArrayBuffer>} read
 * @param {Work} work
 */
async function ours(api, read, work) {
  /** @type {Record<string, () => unknown>} */
  const contestants = {};
  /** @type {any[]} */
  const executables = [];
  for (const [contestant, file, options] of OURS) {
    const exe = await api.load(await read(`${work.name}${file}`), options);
    executables.push(exe);
    for (const [name, file] of work.weights) exe.set(name, new Float32Array(await read(file)));
    const inputs = exe.parameters
      .filter((/** @type {any} */ leaf) => leaf.kind === 'input')
      .map((/** @type {any} */ leaf) => exe.input(leaf.name));
    for (const [i, file] of work.inputs.entries()) inputs[i].set(new Float32Array(await read(file)));
    const out = exe.results.map((/** @type {any} */ leaf) => exe.output(leaf.name));
    contestants[contestant] = () => exe.run(...inputs, { out });
  }
  return { contestants, dispose: () => executables.forEach((exe) => exe.dispose()) };
}

/**
 * Runs the contestants in turns, and adds to `times` the milliseconds of the fastest run of each in each round.
 *
 * @param {Record<string, () => unknown>} contestants
 * @param {Record<string, number[]>} times
 * @param {number} ms how long
 * @param {number} least rounds at least
 */
async function race(contestants, times, ms, least) {
  const end = performance.now() + ms;
  for (let round = 0; round < least || performance.now() < end; round++) {
    for (const [name, run] of Object.entries(contestants)) {
      let fastest = Infinity;
      for (let i = 0; i < 10; i++) {
        const begin = performance.now();
        await run();
        fastest = Math.min(fastest, performance.now() - begin);
      }
      (times[name] ??= []).push(fastest);
    }
  }
}
