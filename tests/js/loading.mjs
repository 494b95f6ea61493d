// Weights, progress, workers, signals: what the loader does with its options. Runs in Node and in browsers, which
// import it; tests/web/test_loading.py serves the files. A case throws if something is wrong; `loading` gives the
// messages of those that did.

const X = Float32Array.of(1, -3, 3, 0.5, 0, 9);
const W = Float32Array.of(1, 2, 3, 4, 5, 6);
const K = BigInt64Array.of(41n);
const Y = [3.5, -3.25, 10, 6.25, 6.5, 25.75];

const check = (truth, what) => {
  if (!truth) throw new Error(what);
};
const same = (got, wanted, what) =>
  check(
    JSON.stringify([...got], (_, v) => (typeof v === 'bigint' ? `${v}n` : v)) === JSON.stringify(wanted),
    `${what}: got ${got}, wanted ${wanted}`,
  );
const rejects = async (work, name) => {
  try {
    await work();
  } catch (error) {
    check(error.name === name, `${error.name} instead of ${name}: ${error.message}`);
    return error;
  }
  throw new Error(`no ${name}`);
};
const soon = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Cases of which each also runs with the executable in a worker. */
const both = {
  async 'progress is honest'({ load, transfer }, at, worker) {
    for (const file of ['big.wasm', 'packed.wasm']) {
      const seen = [];
      const exe = await load(at(file), { worker, onProgress: (progress) => seen.push(progress) });
      check(seen[0].phase === 'module' && seen.at(-1).phase === 'ready', 'phases');
      const weights = seen.filter(({ phase }) => phase === 'weights');
      // WebKit may hand over a file in one piece.
      const pieces = /AppleWebKit(?!.*Chrome)/.test(globalThis.navigator?.userAgent) ? 1 : 2;
      check(weights.length > pieces, `${weights.length} reports`);
      const total = exe.manifest.sidecarBytes;
      check(
        total === 4 << 20 && weights.every((report) => report.total === total),
        'the total is that of the manifest',
      );
      check(
        weights.every(({ loaded }, i) => loaded <= total && (!i || loaded >= weights[i - 1].loaded)),
        'it only grows',
      );
      check(seen.at(-1).loaded === total, 'it ends at the total');
      const x = new Float32Array(1024).fill(1);
      const [y] = await exe.run(transfer(x));
      check(Math.abs(y[3] - 1024 * 3) < 1, `the result is ${y[3]}`);
      check(x.length === (worker ? 0 : 1024), 'what is transferred is gone here');
      await exe.dispose();
    }
  },

  async 'weights from safetensors'({ load }, at, worker) {
    const bytes = new Uint8Array(await (await fetch(at('w.safetensors'))).arrayBuffer());
    const sidecar = at('toy.weights');
    for (const weights of [
      at('w.safetensors'),
      at('params.safetensors?v=1'),
      [at('w.safetensors'), sidecar],
      [sidecar, bytes],
      bytes,
      [await fetch(at('w.safetensors'))],
    ]) {
      for (const file of ['toy.wasm', 'params.wasm']) {
        if (Array.isArray(weights) && weights[0] instanceof Response) weights[0] = await fetch(at('w.safetensors'));
        const exe = await load(at(file), { weights, worker });
        same((await exe.run(X, K))[0], Y, file);
        const name = file === 'toy.wasm' ? 'w' : 'params.w';
        const error = await rejects(async () => exe.get(name), 'ArgumentError');
        check(/came from a file and is kept packed/.test(error.message), error.message);
        await exe.set(name, new Float32Array(6));
        same(
          (await exe.run(X, K))[0],
          Y.map((y, i) => y - W[i]),
          'set again',
        );
        exe.dispose();
      }
    }
    const exe = await load(at('column.wasm'), { weights: at('w.safetensors'), worker });
    same((await exe.run(X, K))[0], [3.5, -3, 10.5, 5.75, 6.25, 25.75], 'column-major');
    exe.dispose();
  },

  async 'weights of f32 from files of f16 and bf16'({ load }, at, worker) {
    for (const weights of [at('half.safetensors'), at('brain.safetensors')]) {
      for (const [file, wanted] of [
        ['toy.wasm', Y],
        ['column.wasm', [3.5, -3, 10.5, 5.75, 6.25, 25.75]],
      ]) {
        const exe = await load(at(file), { weights, worker });
        same((await exe.run(X, K))[0], wanted, `${weights} ${file}`);
        exe.dispose();
      }
    }
    for (const type of ['f16', 'bf16']) {
      const exe = await load(at('codes.wasm'), { weights: at(`codes.${type}.safetensors`), worker });
      const [found] = await exe.run(0);
      const wanted = new Float32Array(await (await fetch(at(`codes.${type}.f32`))).arrayBuffer());
      wanted.forEach((value, i) =>
        check(Object.is(found[i], value + 0), `${type} ${i}: ${found[i]} instead of ${value}`),
      );
      exe.dispose();
    }
  },

  async 'weights of f32 from files of 8 bits with their scales'({ load }, at, worker) {
    for (const shape of ['1x1', '1x3', '2x1', '2x3']) {
      for (const [file, wanted] of [
        ['toy.wasm', Y],
        ['column.wasm', [3.5, -3, 10.5, 5.75, 6.25, 25.75]],
      ]) {
        const exe = await load(at(file), { weights: at(`int8-${shape}.safetensors`), worker });
        same((await exe.run(X, K))[0], wanted, `${shape} ${file}`);
        exe.dispose();
      }
    }
    const refused = {
      'no-scales': /file's 'w' is s8\[2,3\] without 'w.scale'/,
      'wrong-scales': /'w.scale' is f32\[3\], but has to be f32 with the dimensions of 'w'/,
      'late-scales': /'w.scale' has to lie before 'w'/,
    };
    for (const [file, message] of Object.entries(refused)) {
      const error = await rejects(
        () => load(at('toy.wasm'), { weights: at(`${file}.safetensors`), worker }),
        'ArtifactError',
      );
      check(message.test(error.message), error.message);
    }
  },

  async 'a wrong file is fetched once more'({ load }, at, worker) {
    const exe = await load(at('toy.wasm'), { weights: at(`twice-${worker}.weights`), worker });
    await exe.set('w', W);
    same((await exe.run(X, K))[0], Y, 'after the second');
    exe.dispose();
  },

  async 'state stays inside, results by name'({ load }, at, worker) {
    const exe = await load(at('toy.wasm'), { worker, named: true });
    await exe.set('w', W);
    for (let i = 0; i < 3; i++) {
      const { y, k_next, positive } = await exe.run({ x: X, k: 41 });
      same(y, Y, 'y');
      same(k_next, ['42n'], 'k');
      same(positive, [1, 0, 1, 1, 0, 1], 'positive');
    }
    same(await exe.get('count'), [3], 'count');
    await exe.set('count', 10);
    await exe.run(X, K);
    same(await exe.get('count'), [11], 'count after set');
    same(await exe.get('w'), [...W], 'w');
    check((await exe.profile(X, K)).length === 3, 'profile');
    check(exe.parameters.length === 4 && exe.results.length === 4, 'leaves');
    const wide = new Float32Array(1000);
    wide.set(X, 7);
    same((await exe.run(wide.subarray(7, 13), K)).y, Y, 'a view');
    check(wide.length === 1000, 'a view keeps its buffer');
    exe.dispose();
  },

  async 'an aborted run leaves states as they were'({ load }, at, worker) {
    const exe = await load(at('steps.wasm'), { worker });
    const [first] = await exe.run(3);
    const state = await exe.get('x');
    for (const n of [1e9, 1e9]) {
      const stop = new AbortController();
      const run = exe.runAsync(n, { signal: stop.signal });
      setTimeout(() => stop.abort(), 40);
      await rejects(() => run, 'AbortError');
    }
    same(await exe.get('x'), [...state], 'state after the abort');
    const stop = new AbortController();
    const [second] = await exe.runAsync(4, { signal: stop.signal });
    stop.abort();
    check(first[0] === 3 && second[0] === 4, `${first}, ${second} trips`);
    check((await exe.get('x'))[0] === state[0] + 4, 'state after the next run');
    exe.dispose();
  },

  async 'a run that is ended in an inner loop leaves nothing behind'({ load }, at, worker) {
    const exe = await load(at('nest.wasm'), { worker });
    for (const step of [1, 3, 9]) {
      const stop = new AbortController();
      const run = exe.runAsync(0, 0, { signal: stop.signal });
      setTimeout(() => stop.abort(), 40);
      await rejects(() => run, 'AbortError');
      const [x, count] = await exe.runAsync(0, step);
      same([x[0], count[0]], [27, 44], `in steps of ${step}`);
    }
    exe.dispose();
    if (worker) return; // another worker would have to begin within the time
    const hurried = await load(at('nest.wasm'), { timeout: 1 });
    await rejects(() => hurried.runAsync(0, 0), 'LimitError');
    const [x, count] = await hurried.runAsync(0, 1);
    same([x[0], count[0]], [27, 44], 'in time');
  },

  async 'functions of the host'({ load }, at, worker) {
    const exe = await load(at('calls.wasm'), {
      worker,
      customCalls: { f: async (x, { name }) => (await soon(1), name ? x.map((v) => v + 1) : x) },
    });
    same((await exe.runAsync(Float32Array.of(1, 2, 3)))[0], [4, 6, 8], 'twice what the function gave');
    const failing = await load(at('calls.wasm'), {
      worker,
      customCalls: {
        f: () => {
          throw new Error('no such table');
        },
      },
    });
    const error = await rejects(async () => failing.runAsync(X.subarray(0, 3)), 'RunError');
    check(/custom call 'f' .*no such table/.test(error.message), error.message);
    exe.dispose();
    failing.dispose();
  },

  async 'items that come and go while it runs'({ load }, at, worker) {
    const exe = await load(at('feeds.wasm'), { worker });
    async function* items() {
      for (const n of [1, 2]) yield (await soon(1), Float32Array.of(n, n, n));
    }
    const out = [];
    const ends = { infeed: items(), outfeed: async (item) => (await soon(1), out.push(item)) };
    same((await exe.runAsync(Float32Array.of(1, 2, 3), ends))[0], [2, 3, 4], 'with the first item');
    same((await exe.runAsync(Float32Array.of(1, 2, 3), ends))[0], [3, 4, 5], 'with the second item');
    check(out.length === 2, `${out.length} items came out`);
    same(out[1], [1, 2, 3], 'what came out');
    const error = await rejects(async () => exe.runAsync(Float32Array.of(1, 2, 3), ends), 'RunError');
    check(/infeed 'f' takes item 0 of this run, f32\[3\], but its feed has ended/.test(error.message), error.message);
    exe.dispose();
  },

  async 'dynamic sizes'({ load }, at, worker) {
    const exe = await load(at('dynamic.wasm'), { worker });
    for (const rows of [2, 0, 4]) {
      const x = Object.assign(new Float32Array(rows * 3).fill(2), { shape: [rows, 3] });
      const [y] = await exe.run(x);
      same(y, Array(rows * 3).fill(4), `${rows} rows`);
      same(y.shape, [rows, 3], 'shape');
    }
    exe.dispose();
  },
};

const browser = {
  async 'weights are kept by their hash'({ load }, at, base, asked) {
    const use = async (weights, options = { cache: true }) => {
      const exe = await load(at('toy.wasm'), { weights, ...options });
      if (!/safetensors/.test(weights)) exe.set('w', W);
      same(exe.run(X, K)[0], Y, 'the weights');
    };
    await caches.delete('xla-wasm');
    await use(at('kept.weights'));
    check((await asked('kept.weights')) === 1, 'first');
    await use(at('kept.weights'));
    await use(at('kept-elsewhere.weights'), { cache: true, worker: false });
    check(
      (await asked('kept.weights')) === 1 && (await asked('kept-elsewhere.weights')) === 0,
      'from the cache, under any address',
    );
    const cache = await caches.open('xla-wasm');
    const [key] = await cache.keys();
    await cache.put(key, new Response(new Uint8Array(24)));
    await use(at('kept.weights'));
    check((await asked('kept.weights')) === 2, 'what is damaged there is fetched anew');
    await use(at('kept.weights'));
    check((await asked('kept.weights')) === 2, 'and kept again');
    await caches.delete('xla-wasm');
    await rejects(() => load(at('toy.wasm'), { weights: at('other.weights'), cache: true }), 'ArtifactError');
    check((await (await caches.open('xla-wasm')).keys()).length === 0, 'what is wrong is not kept');
    await use(at('w.safetensors'));
    const before = await asked('w.safetensors');
    await use(at('w.safetensors'));
    check((await asked('w.safetensors')) === before + 1, 'a file without a known hash is asked for once, by its head');
    await caches.delete('xla-wasm');
    const remote = await load(at('toy.wasm'), { weights: at('kept.weights'), cache: true, worker: true });
    check((await asked('kept.weights')) === 3, 'a worker keeps it too');
    await use(at('kept.weights'));
    check((await asked('kept.weights')) === 3, 'for the page');
    remote.dispose();
  },
};

/** Runs all cases, or the one of that name. */
export async function loading(api, base, { worker = true, inBrowser = false } = {}) {
  const at = (name) => `${base}/${name}`;
  const asked = async (name) =>
    (await (await fetch(at('asked'), { cache: 'no-store' })).json()).filter((path) => path === `/${name}`).length;
  const wrong = [];
  const attempt = async (name, work) => {
    try {
      await work();
    } catch (error) {
      wrong.push(`${name}: ${error} ${error.stack}`);
    }
  };
  for (const [name, work] of Object.entries(both)) {
    await attempt(name, () => work(api, at, false));
    if (worker) await attempt(`${name}, in a worker`, () => work(api, at, true));
  }
  if (inBrowser)
    for (const [name, work] of Object.entries(browser)) await attempt(name, () => work(api, at, base, asked));
  return wrong;
}
