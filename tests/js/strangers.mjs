// Modules, weights and servers that mean harm, in Node and in pages: tests/test_strangers_js.py makes and serves them. Each function gives what was
// not as it should be.

import { checks, halt, spied } from './devices.mjs';

const SLACK = 200; // milliseconds beyond the timeout in which a call must end
const OWN = ['ArgumentError', 'ArtifactError', 'ExchangeError', 'LimitError', 'RunError', 'UnsupportedError'];

/** Rejections that nobody handles, and errors that nobody catches, from now on. */
function unhandled() {
  const seen = [];
  const note = (what) => seen.push(`unhandled: ${what?.reason?.stack ?? what?.message ?? what?.stack ?? what}`);
  if (globalThis.process?.on) for (const kind of ['unhandledRejection', 'uncaughtException']) process.on(kind, note);
  else for (const kind of ['unhandledrejection', 'error']) addEventListener(kind, note);
  return seen;
}

/** Calls that would never end, with a timeout: they end in time, their workers too, and the next load works. */
export async function budgets({ load }, base, { timeout = 0.5, only } = {}) {
  const { wrong, test, rejects } = checks();
  const lost = unhandled();
  const { workers, release } = spied();
  const ends = (name, work, kind = 'LimitError', message = /took longer than the [\d.]+ s that the option timeout allows/) =>
    only && !name.includes(only)
      ? undefined
      : test(name, async () => {
          const own = {};
          let begin = performance.now();
          // What a case does before is not bounded.
          try {
            await rejects((async () => work(() => (begin = performance.now()), own))(), kind, message);
            const passed = performance.now() - begin;
            if (passed > timeout * 1000 + SLACK) throw new Error(`it took ${passed.toFixed()} ms`);
            if (passed < timeout * 1000 - 50) throw new Error(`it took ${passed.toFixed()} ms only`);
          } finally {
            own.exe?.dispose();
          }
          for (let i = 0; i < 40 && workers.some((worker) => worker.isAlive()); i++) await halt(50);
          if (workers.some((worker) => worker.isAlive())) throw new Error('a worker is left');
          const next = await load(`${base}/good.wasm`, { timeout: 20 });
          if (next.run(Float32Array.of(1, 2, 3))[0][1] !== 4) throw new Error('the next load does not work');
        });
  const at = (name) => `${base}/${name}.wasm`;
  const x = Float32Array.of(1, 2, 3);
  const ready = async (name, options, own, start) => {
    own.exe = await load(at(name), { timeout, ...options });
    start();
    return own.exe;
  };
  const worker = true;
  const modes = { 'here': {}, 'in a worker': { worker }, 'on two devices': { devices: 2 }, 'on two devices by messages': { devices: 2, transport: 'messages' } };
  for (const [where, options] of Object.entries(modes)) {
    await ends(`a module that never comes, ${where}`, () => load(at('slow'), { timeout, ...options }));
    await ends(`weights that never come, ${where}`, () => load(at('weighty'), { timeout, weights: `${base}/slow.weights`, ...options }));
    await ends(`inits without end, ${where}`, () => load(at('inits'), { timeout, ...options }));
    if (where !== 'here') await ends(`a start without end, ${where}`, () => load(at('start'), { timeout, ...options }));
  }
  await ends('a response that never comes', () => load(fetch(at('slow')), { timeout }));
  await ends('a response that never comes, for a worker', () => load(fetch(at('slow')), { timeout, worker }));
  await ends('a response that never comes, for two devices', () => load(fetch(at('slow')), { timeout, devices: 2 }));
  await ends('a worker that never answers', () => load(at('good'), { timeout, worker: new URL('./silent.mjs', import.meta.url) }));
  await ends('a promise of a source', () => load(new Promise(() => {}), { timeout, worker }));

  const calls = { run: (exe) => exe.run(x), runAsync: (exe) => exe.runAsync(x), profile: (exe) => exe.profile(x) };
  for (const [call, go] of Object.entries(calls)) {
    for (const name of call === 'profile' ? ['steps', 'both'] : ['waits', 'both', 'outfeed', 'awaits']) {
      if (name === 'awaits' && call === 'run') continue;
      const given = {};
      if (name === 'awaits') given.customCalls = { f: () => new Promise(() => {}) };
      const use = name === 'outfeed' ? (exe) => exe[call](x, { outfeed: () => {} }) : go;
      await ends(`${call} of ${name}`, async (start, own) => use(await ready(name, given, own, start)));
      await ends(`${call} of ${name}, in a worker`, async (start, own) => use(await ready(name, { worker, ...given }, own, start)));
    }
    if (call !== 'profile') await ends(`${call} of loops, in a worker`, async (start, own) => go(await ready('loops', { worker }, own, start)));
  }
  await ends('set of a weight, in a worker', async (start, own) => (await ready('weighs', { worker }, own, start)).set('w', x));
  await ends('an aborted run whose worker does not listen', async (start, own) => {
    const exe = await ready('loops', { worker }, own, start);
    const stop = new AbortController();
    const run = exe.run(x, { signal: stop.signal });
    stop.abort();
    await run.catch(() => {});
    return exe.profile(x);
  });
  await test('calls that wait for their turn have their own time', async () => {
    const exe = await load(at('good'), { timeout: 5, worker });
    await Promise.all(Array.from({ length: 50 }, () => exe.run(x)));
    exe.dispose();
  });
  for (const transport of ['shared', 'messages']) {
    const group = { devices: 2, transport };
    const lists = [[x], [x]];
    const restarted = async (exe) => {
      // The next call has workers of its own, and fails as the first one did.
      const begin = performance.now();
      await rejects(exe.runReplicated(lists), 'LimitError', /took longer than/);
      if (performance.now() - begin > 2 * timeout * 1000 + 2000) throw new Error('the second run took too long');
    };
    for (const name of ['waits', 'loops', 'both']) {
      await ends(`devices of ${name}, ${transport}`, async (start, own) => (await ready(name, group, own, start)).runReplicated(lists));
      if (name === 'waits') await test(`again: ${name}, ${transport}`, async () => {
        const exe = await load(at(name), { timeout, ...group });
        await restarted(exe);
        await restarted(exe);
        exe.dispose();
      });
    }
    await ends(`set on devices, ${transport}`, async (start, own) => (await ready('weighs', group, own, start)).set('w', x));
  }

  await test('what the option takes', async () => {
    for (const bad of [0, -1, NaN, '1', null, {}]) await rejects(load(at('good'), { timeout: bad }), 'ArgumentError', /timeout is in seconds, above 0/);
    const stop = new AbortController();
    const slow = load(at('slow'), { timeout: 20, signal: stop.signal });
    stop.abort(new RangeError('left the page'));
    await rejects(slow, 'RangeError', /left the page/);
  });
  await test('after a run on this thread that took too long', async () => {
    const exe = await load(at('waits'), { timeout: 0.1 });
    await rejects((async () => exe.run(x))(), 'LimitError', /took longer/);
    await rejects((async () => exe.run(x))(), 'RunError', /load it again/);
    const other = await load(at('both'), { timeout: 0.1 });
    await rejects(other.runAsync(x), 'LimitError', /took longer/);
    await rejects(other.runAsync(x), /LimitError/, /took longer/);
  });
  await halt(100);
  release();
  return [...wrong, ...lost];
}

/** Modules whose memory may be more than they say. */
export async function memories({ load }, base) {
  const { wrong, test, rejects } = checks();
  const bytes = async (name) => (await fetch(`${base}/${name}.wasm`)).arrayBuffer();
  for (const name of ['grows', 'grows-by-one', 'unbounded']) {
    const sources = { address: () => `${base}/${name}.wasm`, bytes: () => bytes(name), response: () => fetch(`${base}/${name}.wasm`), compiled: async () => WebAssembly.compile(await bytes(name)) };
    for (const [kind, source] of Object.entries(sources)) {
      for (const options of [{}, { memoryLimit: 65536 }, { worker: true }, { devices: 2 }]) {
        await test(`${name} by ${kind}, ${JSON.stringify(options)}`, async () => rejects(load(await source(), options), 'ArtifactError', /may grow beyond the 65536 bytes|cannot compile/));
      }
    }
  }
  return wrong;
}

/** Weights that come in a way of their own; `cases` say at which paths, and what requests they take. */
export async function transfers({ load }, base, cases) {
  const { wrong, test, equal, rejects } = checks();
  const lost = unhandled();
  const asked = async (name) => (await (await fetch(`${base}/ranges`, { cache: 'no-store' })).json())[`/${name}`] ?? [];
  for (const { name, module, error, ranges, options = {} } of cases) {
    await test(name, async () => {
      const begin = performance.now();
      const before = (await asked(name)).length;
      const loading = load(`${base}/${module}.wasm`, { weights: `${base}/${name}`, ...options });
      if (error) await rejects(loading, error[0], new RegExp(error[1]));
      else (await loading).dispose();
      const passed = performance.now() - begin;
      if (passed > 2000 + 3000 * (ranges.length - 1)) throw new Error(`it took ${passed.toFixed()} ms`);
      const got = (await asked(name)).slice(before);
      equal(got.map((range) => (range ? 'rest' : 'whole')), ranges);
      for (const range of got) if (range && !/^bytes=[1-9]\d*-$/.test(range)) throw new Error(range);
    });
  }
  await halt(300);
  const gone = await (await fetch(`${base}/gone`, { cache: 'no-store' })).json();
  for (const { name } of cases) if (/endless/.test(name)) await test(`${name}: the client has gone`, () => equal(gone.includes(`/${name}`), true));

  await test('an abort while it waits to try again', async () => {
    for (const [options, kind] of [[{ signal: AbortSignal.timeout(150) }, 'TimeoutError'], [{ timeout: 0.15 }, 'LimitError']]) {
      const begin = performance.now();
      await rejects(load(`${base}/large.wasm`, { weights: `${base}/down.weights`, ...options }), kind, /time/);
      if (performance.now() - begin > 350) throw new Error(`after ${performance.now() - begin} ms`);
    }
  });
  if (globalThis.caches) {
    await test('an endless file is kept as far as it is needed', async () => {
      await caches.delete('xla-wasm');
      const weights = `${base}/endless.weights`;
      const before = (await asked('endless.weights')).length;
      for (let i = 0; i < 3; i++) (await load(`${base}/large.wasm`, { weights, cache: true })).dispose();
      equal((await asked('endless.weights')).length, before + 1);
    });
    await test('a file that broke is kept too', async () => {
      await caches.delete('xla-wasm');
      const weights = `${base}/broken-and-kept.weights`;
      for (let i = 0; i < 3; i++) (await load(`${base}/large.wasm`, { weights, cache: true })).dispose();
      equal((await asked('broken-and-kept.weights')).length, 2);
      await caches.delete('xla-wasm');
    });
  }
  await halt(100);
  return [...wrong, ...lost];
}
