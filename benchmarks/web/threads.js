// Runs artifacts without threads, on one thread and on two, in turns, in Node or in a page; of each the milliseconds of
// its fastest run.

/** @type {[string, string, { threads?: number }][]} the name, the end of the file, and options of `load` */
const OURS = [
  ['plain', '.plain.wasm', {}],
  ['ours 1', '.wasm', { threads: 1 }],
  ['ours 2', '.wasm', { threads: 2 }],
];

/**
 * @param {any} api the loader
 * @param {(name: string) => Promise<ArrayBuffer>} read
 * @param {{works: {name: string, inputs: string[], weights: [string, string][]}[], seconds: number, least: number}} job
 * @param {(work: any) => Promise<Record<string, () => unknown>>} [others] contestants beside ours
 */
export async function measure(api, read, { works, seconds, least }, others = async () => ({})) {
  /** @type {Record<string, Record<string, number>>} */
  const found = {};
  for (const work of works) {
    /** @type {Record<string, () => unknown>} */
    const contestants = {};
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
    Object.assign(contestants, await others(work));
    const best = Object.fromEntries(Object.keys(contestants).map((name) => [name, Infinity]));
    const end = performance.now() + seconds * 1000;
    for (let round = 0; round < least || performance.now() < end; round++) {
      for (const [name, run] of Object.entries(contestants)) {
        for (let i = 0; i < 10; i++) {
          const begin = performance.now();
          await run();
          best[name] = Math.min(best[name], performance.now() - begin);
        }
      }
    }
    for (const exe of executables) exe.dispose();
    found[work.name] = best;
  }
  return found;
}
