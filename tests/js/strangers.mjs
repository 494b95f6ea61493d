// Modules, weights and servers that mean harm, in Node and in pages: tests/web/test_strangers_js.py makes and serves
// them. Each function gives what was not as it should be.

import { checks, halt, patient, spied } from './devices.mjs';
import { sample } from './samples.mjs';

const SLACK = 2000; // milliseconds beyond the timeout in which a call must end: 200 where nothing else runs
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
  // A slow machine takes longer than that to start two devices; the first ones take longest.
  let least = Infinity;
  for (let i = 0; i < 3; i++) {
    const begun = performance.now();
    (await load(`${base}/good.wasm`, { devices: 2 })).dispose();
    least = Math.min(least, performance.now() - begun);
  }
  timeout = Math.max(timeout, (3 * least) / 1000);
  const { workers, release } = spied();
  const ends = (
    name,
    work,
    kind = 'LimitError',
    message = /took longer than the [\d.]+ s that the option timeout allows/,
  ) =>
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
    own.exe = await patient(load)(at(name), { timeout, ...options });
    start();
    return own.exe;
  };
  const worker = true;
  const modes = {
    here: {},
    'in a worker': { worker },
    'on two devices': { devices: 2 },
    'on two devices by messages': { devices: 2, transport: 'messages' },
  };
  for (const [where, options] of Object.entries(modes)) {
    await ends(`a module that never comes, ${where}`, () => load(at('slow'), { timeout, ...options }));
    await ends(`weights that never come, ${where}`, () =>
      load(at('weighty'), { timeout, weights: `${base}/slow.weights`, ...options }),
    );
    await ends(`inits without end, ${where}`, () => load(at('inits'), { timeout, ...options }));
    if (where !== 'here') await ends(`a start without end, ${where}`, () => load(at('start'), { timeout, ...options }));
  }
  await ends('a response that never comes', () => load(fetch(at('slow')), { timeout }));
  await ends('a response that never comes, for a worker', () => load(fetch(at('slow')), { timeout, worker }));
  await ends('a response that never comes, for two devices', () => load(fetch(at('slow')), { timeout, devices: 2 }));
  await ends('a worker that never answers', () =>
    load(at('good'), { timeout, worker: new URL('./silent.mjs', import.meta.url) }),
  );
  await ends('a promise of a source', () => load(new Promise(() => {}), { timeout, worker }));

  const calls = { run: (exe) => exe.run(x), runAsync: (exe) => exe.runAsync(x), profile: (exe) => exe.profile(x) };
  for (const [call, go] of Object.entries(calls)) {
    for (const name of call === 'profile' ? ['steps', 'both'] : ['waits', 'both', 'outfeed', 'awaits']) {
      if (name === 'awaits' && call === 'run') continue;
      const given = {};
      if (name === 'awaits') given.customCalls = { f: () => new Promise(() => {}) };
      const use = name === 'outfeed' ? (exe) => exe[call](x, { outfeed: () => {} }) : go;
      await ends(`${call} of ${name}`, async (start, own) => use(await ready(name, given, own, start)));
      await ends(`${call} of ${name}, in a worker`, async (start, own) =>
        use(await ready(name, { worker, ...given }, own, start)),
      );
    }
    if (call !== 'profile')
      await ends(`${call} of loops, in a worker`, async (start, own) =>
        go(await ready('loops', { worker }, own, start)),
      );
  }
  await ends('set of a weight, in a worker', async (start, own) =>
    (await ready('weighs', { worker }, own, start)).set('w', x),
  );
  await ends('an aborted run whose worker does not listen', async (start, own) => {
    const exe = await ready('loops', { worker }, own, start);
    const stop = new AbortController();
    const run = exe.run(x, { signal: stop.signal });
    stop.abort();
    await run.catch(() => {});
    return exe.profile(x);
  });
  await test('calls that wait for their turn have their own time', async () => {
    const exe = await patient(load)(at('good'), { timeout: 5, worker });
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
      await ends(`devices of ${name}, ${transport}`, async (start, own) =>
        (await ready(name, group, own, start)).runReplicated(lists),
      );
      if (name === 'waits')
        await test(`again: ${name}, ${transport}`, async () => {
          const exe = await patient(load)(at(name), { timeout, ...group });
          await restarted(exe);
          await restarted(exe);
          exe.dispose();
        });
    }
    await ends(`set on devices, ${transport}`, async (start, own) =>
      (await ready('weighs', group, own, start)).set('w', x),
    );
  }

  await test('what the option takes', async () => {
    for (const bad of [0, -1, NaN, '1', null, {}])
      await rejects(load(at('good'), { timeout: bad }), 'ArgumentError', /timeout is in seconds, above 0/);
    const stop = new AbortController();
    const slow = load(at('slow'), { timeout: 20, signal: stop.signal });
    stop.abort(new RangeError('left the page'));
    await rejects(slow, 'RangeError', /left the page/);
  });
  await test('after a run on this thread that took too long', async () => {
    const exe = await patient(load)(at('waits'), { timeout: 0.1 });
    await rejects((async () => exe.run(x))(), 'LimitError', /took longer/);
    await rejects((async () => exe.run(x))(), 'RunError', /load it again/);
    const other = await patient(load)(at('both'), { timeout: 0.1 });
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
    const sources = {
      address: () => `${base}/${name}.wasm`,
      bytes: () => bytes(name),
      response: () => fetch(`${base}/${name}.wasm`),
      compiled: async () => WebAssembly.compile(await bytes(name)),
    };
    for (const [kind, source] of Object.entries(sources)) {
      for (const options of [{}, { memoryLimit: 65536 }, { worker: true }, { devices: 2 }]) {
        await test(`${name} by ${kind}, ${JSON.stringify(options)}`, async () =>
          rejects(load(await source(), options), 'ArtifactError', /may grow beyond the 65536 bytes|cannot compile/));
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
      equal(
        got.map((range) => (range ? 'rest' : 'whole')),
        ranges,
      );
      for (const range of got) if (range && !/^bytes=[1-9]\d*-$/.test(range)) throw new Error(range);
    });
  }
  await halt(300);
  const gone = await (await fetch(`${base}/gone`, { cache: 'no-store' })).json();
  for (const { name } of cases)
    if (/endless/.test(name)) await test(`${name}: the client has gone`, () => equal(gone.includes(`/${name}`), true));

  await test('an abort while it waits to try again', async () => {
    for (const [options, kind] of [
      [{ signal: AbortSignal.timeout(150) }, 'TimeoutError'],
      [{ timeout: 0.15 }, 'LimitError'],
    ]) {
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

/** Numbers that look random, the same in every engine. */
function dice(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  const below = (n) => next() % n;
  return { below, pick: (list) => list[below(list.length)] };
}

// In the text of a manifest it becomes lists in lists, deeper than any recursion goes.
const DEEP = 'as deep as can be';
const textOf = (manifest) =>
  new TextEncoder().encode(
    JSON.stringify(manifest).replaceAll(JSON.stringify(DEEP), '['.repeat(1e5) + ']'.repeat(1e5)),
  );
const NASTY = [
  null,
  true,
  false,
  0,
  1,
  -1,
  2,
  3,
  0.5,
  4,
  65536,
  65535,
  2 ** 31,
  2 ** 32,
  2 ** 40,
  2 ** 53 - 1,
  2 ** 53,
  -(2 ** 31),
  1e308,
  '',
  'x',
  '__proto__',
  'constructor',
  'toString',
  'f32',
  's4',
  'c64',
  'token',
  'f16',
  'bf16',
  'input',
  'weight',
  'state',
  'output',
  'sidecar',
  'segment',
  'exchange',
  'infeed',
  'custom_call',
  'send',
  'module',
  'command',
  '\ud800',
  '\u0000',
  '*/',
  'a'.repeat(1e5),
  [],
  {},
  [null],
  [[]],
  [0, 0, 0],
  [1, 0],
  [2 ** 40, 0],
  [0, 2 ** 40],
  Array(40).fill(1),
  Array(1000).fill({}),
  { length: 3 },
  { __proto__: null },
  { offset: 0, count: 2 ** 30 },
  { replicas: 2 ** 16, partitions: 2 ** 16, least: 1, most: null, offset: 0, axis: 'replicas' },
];

/** Fields that a manifest need not have, by what they may be. */
const MORE = {
  sizes: [[], [null], [1024], [1024, null], [null, 65532], [65534, 2], 3],
  shards: [
    null,
    {},
    {
      dimensions: [4, 4],
      starts: [
        [0, 0],
        [2, 0],
      ],
    },
    { dimensions: [8], starts: [[0], [4]] },
    { dimensions: [2 ** 40], starts: [] },
  ],
  tiles: [[], [[2, 2]], [['*']], [[0]], [[2 ** 40]], [[2 ** 31, 2 ** 31]]],
  padded_dimensions: [[], [9, 9], [2 ** 40, 2 ** 40]],
  tail_padding_alignment: [0, 7, 2 ** 53 - 1],
  element_size_in_bits: [0, 4, 3, 2 ** 40],
  physical_bytes: [0, 24, 32, 2 ** 40],
  devices: [
    null,
    {},
    { offset: 112, replicas: 2, partitions: 1, least: 1, most: null, axis: 'replicas' },
    { offset: 0, replicas: null, partitions: null, least: 2 ** 16, most: 1, axis: 'x' },
  ],
  stateful: [true, 3],
  undivided: ['why', 3, {}],
  kind: ['command', 'server', 3, {}],
};

/** A manifest with something else in some places. */
function forge(manifest, { below, pick }) {
  const copy = structuredClone(manifest);
  for (let n = below(3) ? 1 : 1 + below(3); n; n--) {
    const places = [];
    const visit = (value) => {
      if (value === null || typeof value !== 'object') return;
      for (const key of Object.keys(value)) {
        places.push([value, key]);
        if (places.length < 5000) visit(value[key]);
      }
    };
    visit(copy);
    // The manifest's own fields are few among all of them.
    const [holder, key] = below(3) ? pick(places) : [copy, pick(Object.keys(copy))];
    const value = holder[key];
    const [other, name] = pick(places);
    const kind = below(12);
    if (kind > 8 && !Array.isArray(holder)) {
      const field = pick(Object.keys(MORE));
      const leaves = [copy, copy.parameters, copy.results, copy.requests]
        .flat()
        .filter((one) => one && typeof one === 'object');
      pick(leaves)[field] = structuredClone(pick(MORE[field]));
    } else if (kind > 6) {
      const same = places.filter(([one, at]) => at === key && typeof one[at] === typeof value);
      const [twin, its] = pick(same);
      holder[key] = structuredClone(twin[its]);
    } else if (kind === 0) delete holder[key];
    else if (kind === 1 && typeof value === 'number') holder[key] = value + pick([1, -1, 4, -4, 64, 65536]);
    else if (kind === 2 && Array.isArray(value)) value.push(structuredClone(value[0] ?? 0));
    else if (kind === 3 && Array.isArray(value)) value.pop();
    else if (kind === 4) holder[key] = structuredClone(other[name]);
    else if (kind === 5 && !below(3)) holder[key] = DEEP;
    else holder[key] = structuredClone(pick(NASTY));
  }
  return copy;
}

const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(Math.floor(n / 128))]);

/** The code of a module, and the manifest in its last section. */
function apart(bytes, module) {
  const [content] = WebAssembly.Module.customSections(module, 'xla_wasm');
  const name = new TextEncoder().encode('xla_wasm');
  const head = [0, ...leb(1 + name.length + content.byteLength), name.length, ...name];
  return {
    code: bytes.subarray(0, bytes.length - content.byteLength - head.length),
    manifest: JSON.parse(new TextDecoder().decode(content)),
  };
}

/** @param {Uint8Array} code @param {Uint8Array} content */
function together(code, content) {
  const name = new TextEncoder().encode('xla_wasm');
  const head = [0, ...leb(1 + name.length + content.length), name.length, ...name];
  const whole = new Uint8Array(code.length + head.length + content.length);
  whole.set(code);
  whole.set(head, code.length);
  whole.set(content, code.length + head.length);
  return whole;
}

/**
 * Artifacts that were changed at random; whatever is done with them ends soon, and with an error of the loader's own if
 * it does not go well.
 */
export async function forgeries(api, base, { names, seed, count, mode, transport = 'auto' }) {
  const wrong = [];
  const outcomes = {};
  const lost = unhandled();
  const random = dice(seed);
  const { below, pick } = random;
  const originals = await Promise.all(
    names.map(async (name) => {
      const bytes = new Uint8Array(await (await fetch(`${base}/${name}.wasm`)).arrayBuffer());
      const weights = await fetch(`${base}/${name}.weights`);
      return {
        name,
        weights: weights.ok ? await weights.arrayBuffer() : undefined,
        ...apart(bytes, await WebAssembly.compile(bytes)),
      };
    }),
  );
  const where = {
    here: { timeout: 1 },
    worker: { worker: true, timeout: 1 },
    devices: { devices: 2, transport, timeout: 1 },
  }[mode];
  for (let i = 0; i < count && wrong.length < 20; i++) {
    const { name, code, manifest, weights } = pick(originals);
    const parts = { code, content: textOf(forge(manifest, random)) };
    const what = `${name} ${i}`;
    // A changed program may loop for ever, which nobody can end in this thread.
    const kind = below(mode === 'here' ? 4 : 8);
    const part = kind === 0 ? 'content' : kind > 3 ? 'code' : undefined;
    if (part) {
      parts[part] = parts[part].slice();
      if (kind > 3 && below(2)) parts.content = textOf(manifest);
      for (let n = 1 + below(3); n; n--) parts[part][8 + below(parts[part].length - 8)] = below(256);
    }
    const options = {
      ...where,
      ...pick([{}, {}, { named: true }, { physical: true }, { memoryLimit: 2 ** 24 }]),
      weights: below(9) ? weights?.slice(0) : undefined,
      customCalls: { f: (x) => x },
    };
    if (options.weights === undefined) delete options.weights;
    const once = async (stage, work) => {
      const begin = performance.now();
      try {
        const value = await work();
        outcomes[`${stage}: done`] = (outcomes[`${stage}: done`] ?? 0) + 1;
        return value;
      } catch (error) {
        const isOwn = error instanceof api.XlaWasmError && OWN.includes(error.name);
        outcomes[`${stage}: ${error.name}`] = (outcomes[`${stage}: ${error.name}`] ?? 0) + 1;
        if (!isOwn) wrong.push(`${what}, ${stage}: ${error} ${error.stack}`);
        if (/undefined is not|Cannot read prop|is not a function/.test(error.message))
          wrong.push(`${what}, ${stage}: ${error.message}`);
        return undefined;
      } finally {
        const passed = performance.now() - begin;
        if (passed > 2000) wrong.push(`${what}, ${stage}: it took ${passed.toFixed()} ms`);
      }
    };
    const exe = await once('load', () => api.load(together(parts.code, parts.content), options));
    if (!exe) continue;
    outcomes.loaded = (outcomes.loaded ?? 0) + 1;
    const given = exe.parameters.some(({ bytes }) => bytes > 1e6)
      ? []
      : exe.parameters.filter(({ kind }) => kind === 'input').map(sample);
    const group = mode === 'devices';
    for (const leaf of exe.parameters.filter(({ kind }) => kind !== 'input').slice(0, 3)) {
      await once('set', async () => exe.set(leaf.name, sample(leaf)));
      await once('get', async () => exe.get(leaf.name));
    }
    await once('run', async () => (group ? exe.runReplicated([given, given]) : exe.run(...given)));
    if (group) await once('runGlobal', async () => exe.runGlobal(given));
    else {
      await once('profile', async () => exe.profile(...given));
      await once('runAsync', async () =>
        exe.runAsync(
          ...given,
          name === 'feeds' ? { infeed: [given, given], outfeed: () => {} } : { signal: new AbortController().signal },
        ),
      );
    }
    exe.dispose();
  }
  await halt(200);
  return { wrong: [...wrong, ...lost], outcomes };
}

/** Headers of safetensors that lie: the loader's own error, soon. */
export async function headers(api, base) {
  const { wrong, test } = checks();
  const lost = unhandled();
  const tensor = { dtype: 'F32', shape: [1 << 18], data_offsets: [0, 1 << 20] };
  const offsets = [
    null,
    3,
    {},
    [],
    [0],
    [-4, (1 << 20) - 4],
    ['0', '1048576'],
    [0, 1e300],
    [1e300, 2e300],
    [0.5, 2 ** 20 + 0.5],
    DEEP,
    [DEEP, DEEP],
    [2 ** 53, 2 ** 53 + 2 ** 20],
    [2 ** 50, 2 ** 50 + 2 ** 20],
  ];
  const shapes = [null, 3, {}, DEEP, [DEEP], [], [[1 << 18]], ['262144'], Array(1e5).fill(1), [1 << 18, 1]];
  const lies = [
    null,
    3,
    'x',
    [],
    DEEP,
    { w: null },
    { w: 3 },
    { w: DEEP },
    { w: [] },
    { __metadata__: DEEP },
    { w: { ...tensor, dtype: DEEP } },
    { w: { ...tensor, dtype: 'F64' } },
    { w: { ...tensor, dtype: '__proto__' } },
  ];
  lies.push(
    ...offsets.map((data_offsets) => ({ w: { ...tensor, data_offsets } })),
    ...shapes.map((shape) => ({ w: { ...tensor, shape } })),
  );
  for (const lie of lies) {
    await test(JSON.stringify(lie).slice(0, 200), async () => {
      const text = textOf(lie);
      const bytes = new Uint8Array(8 + text.length + (1 << 20));
      new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
      bytes.set(text, 8);
      const begin = performance.now();
      const error = await api
        .load(`${base}/named.wasm`, { weights: new Response(bytes, { headers: {} }), timeout: 2 })
        .then(
          () => new Error('it loaded'),
          (reason) => reason,
        );
      const safe = await api.load(`${base}/named.wasm`, { weights: bytes, timeout: 2 }).then(
        () => new Error('it loaded'),
        (reason) => reason,
      );
      for (const one of [error, safe]) if (!(one instanceof api.XlaWasmError)) throw one;
      if (performance.now() - begin > 1500) throw new Error('it took too long');
    });
  }
  for (const length of [2n ** 63n, 2n ** 64n - 1n, 10n ** 8n + 1n, 10n ** 8n, 0n, 5n]) {
    await test(`a header of ${length} bytes`, async () => {
      const bytes = new Uint8Array(64);
      new DataView(bytes.buffer).setBigUint64(0, length, true);
      bytes.set([123, 125], 8);
      const error = await api.load(`${base}/named.wasm`, { weights: bytes, timeout: 2 }).then(
        () => new Error('it loaded'),
        (reason) => reason,
      );
      if (!(error instanceof api.XlaWasmError)) throw error;
    });
  }
  await halt(100);
  return [...wrong, ...lost];
}
