// What people do wrong with the loader, what it says then, and that the next correct use works. Runs in Node and in
// browsers, which import it; tests/web/test_misuse.py serves the files. It gives a list of what went wrong with the
// cases themselves, which is empty if all is well.

const X = Float32Array.of(1, -3, 3, 0.5, 0, 9);
const K = BigInt64Array.of(41n);
const Y = '3.5,-3.25,10,6.25,6.5,25.75'; // 2 x + w + 0.5 + (0, 0.25, ...), w = (1, 2, ...)
const W = Float32Array.of(1, 2, 3, 4, 5, 6);

const bytesOf = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());
const soon = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Cases of loading: what is done, the class of the error, and what it must say. */
const loading = (load, at) => ({
  'no source': [() => load(), 'ArgumentError', /cannot load from undefined: pass a URL/],
  'a number as source': [() => load(42), 'ArgumentError', /cannot load from number: pass a URL/],
  'null as source': [() => load(null), 'ArgumentError', /cannot load from null: pass a URL/],
  'an object as source': [
    () => load({ url: 'a.wasm' }),
    'ArgumentError',
    /builds are \{simd128: ..., 'relaxed-simd': ...\}/,
  ],
  'options that are no object': [
    () => load(at('toy.wasm'), 'toy.weights'),
    'ArgumentError',
    /options of load are an object, such as \{weights: ...\}; got string/,
  ],
  'a misspelt option': [
    () => load(at('toy.wasm'), { weight: 'a' }),
    'ArgumentError',
    /load has no option 'weight' \(known: weights, /,
  ],
  'a wrong address': [
    () => load(at('none.wasm')),
    'ArtifactError',
    /cannot fetch http.*none\.wasm: HTTP 404 Not Found/,
  ],
  'a page instead of the module': [
    () => load(at('page.wasm')),
    'ArtifactError',
    /page\.wasm is not a WebAssembly module: it is an HTML page, so the address is probably wrong/,
  ],
  'a page with the type of a module': [
    () => load(at('lie.wasm')),
    'ArtifactError',
    /cannot compile http.*lie\.wasm: .*perhaps an HTML page, so the address is probably wrong/,
  ],
  'a module cut short': [
    () => load(at('short.wasm')),
    'ArtifactError',
    /cannot compile http.*short\.wasm: .*the file is probably cut short/,
  ],
  'bytes of a module cut short': [
    async () => load((await bytesOf(at('toy.wasm'))).subarray(0, 200)),
    'ArtifactError',
    /cannot compile the module: .*the file is probably cut short/,
  ],
  'a connection that breaks': [
    () => load(at('broken.wasm')),
    'ArtifactError',
    /broken\.wasm.*connection broke|connection broke while .*broken\.wasm/,
  ],
  'an empty file': [
    () => load(at('empty.bin')),
    'ArtifactError',
    /empty\.bin is not a WebAssembly module: it is empty/,
  ],
  'bytes that are no module': [
    () => load(Uint8Array.of(1, 2, 3, 4)),
    'ArtifactError',
    /this is not a WebAssembly module: it does not begin with the bytes '\\0asm'/,
  ],
  'a module of another compiler': [
    () => load(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)),
    'ArtifactError',
    /no custom section 'xla_wasm': it was not made by xla_wasm, or was stripped/,
  ],
  'a module with imports': [() => load(at('imports.wasm')), 'ArtifactError', /must import nothing, but imports a\.b/],
  'a manifest of a later format': [
    () => load(at('format.wasm')),
    'ArtifactError',
    /manifest is wrong at format: this xla_wasm reads formats 1 to 3, the artifact has 4/,
  ],
  'a manifest beyond the memory': [
    () => load(at('offset.wasm')),
    'ArtifactError',
    /wrong at parameters\[0\]\.offset: 24 bytes at 65516 would reach beyond the memory/,
  ],
  'a manifest that lies about memory': [
    () => load(at('pages.wasm')),
    'ArtifactError',
    /manifest states 131072 bytes of memory, the module has 65536/,
  ],
  'a server that is not there': [
    () => load('http://127.0.0.1:9/a.wasm'),
    'ArtifactError',
    /^cannot fetch http:\/\/127\.0\.0\.1:9\/a\.wasm: /,
  ],
  'a response that was read before': [
    async () => {
      const response = await fetch(at('toy.wasm'));
      await response.arrayBuffer();
      return load(response);
    },
    'ArgumentError',
    /the response of http.*toy\.wasm has been read before: pass a new one, or its clone\(\)/,
  ],
  'a memory limit': [
    () => load(at('toy.wasm'), { memoryLimit: 1000 }),
    'LimitError',
    /needs 65536 bytes of memory, the limit is 1000/,
  ],
  'more memory than there is': [
    () => load(at('huge.wasm')),
    'LimitError',
    /no room for the 4294901760 bytes \(4095\.9 MiB\) of memory that 'toy' needs in one piece: /,
  ],
  'aborted before it began': [() => load(at('toy.wasm'), { signal: AbortSignal.abort() }), 'AbortError', /abort/],
  'aborted with a reason': [
    () => load(at('toy.wasm'), { signal: AbortSignal.abort(new RangeError('left the page')) }),
    'RangeError',
    /^left the page$/,
  ],
  'aborted while the module came': [
    () => load(at('slow.wasm'), { signal: AbortSignal.timeout(100) }),
    'TimeoutError',
    /time/,
  ],
  'aborted while the weights came': [
    () => load(at('toy.wasm'), { weights: at('slow.weights'), signal: AbortSignal.timeout(100) }),
    'TimeoutError',
    /time/,
  ],
  'aborted in a worker': [
    () => load(at('slow.wasm'), { worker: true, signal: AbortSignal.timeout(100) }),
    'TimeoutError',
    /time/,
  ],
  'no weights for bytes': [
    async () => load(await bytesOf(at('toy.wasm'))),
    'ArtifactError',
    /weights file of 'toy' must have 24 bytes and none was given: load\(source, \{weights: ...\}\)/,
  ],
  'weights at a wrong address': [
    () => load(at('toy.wasm'), { weights: at('none.weights') }),
    'ArtifactError',
    /cannot fetch http.*none\.weights: HTTP 404/,
  ],
  'a page instead of weights': [
    () => load(at('toy.wasm'), { weights: at('page.wasm') }),
    'ArtifactError',
    /weights file of 'toy' .*page\.wasm: it is an HTML page, so the address is probably wrong/,
  ],
  'weights cut short': [
    () => load(at('toy.wasm'), { weights: at('short.weights') }),
    'ArtifactError',
    /must have 24 bytes but has only 20: it is cut short or of another module/,
  ],
  'weights whose connection breaks': [
    () => load(at('toy.wasm'), { weights: at('broken.weights') }),
    'ArtifactError',
    /the connection broke while http.*broken\.weights came/,
  ],
  'weights of another model': [
    () => load(at('toy.wasm'), { weights: at('other.weights') }),
    'ArtifactError',
    /weights of 'v' are not those the module was compiled with: wrong or damaged/,
  ],
  'two weights files': [
    () => load(at('toy.wasm'), { weights: [at('toy.weights'), at('toy.weights')] }),
    'ArgumentError',
    /'toy' has one weights file, got 2/,
  ],
  'safetensors that are none': [
    () => load(at('toy.wasm'), { weights: at('none.safetensors') }),
    'ArtifactError',
    /HTTP 404/,
  ],
  'safetensors of another model': [
    () => load(at('toy.wasm'), { weights: at('other.safetensors') }),
    'ArtifactError',
    /is of another model: 'toy' has the weights w; the file has a, b$/,
  ],
  'safetensors of another shape': [
    () => load(at('toy.wasm'), { weights: at('shape.safetensors') }),
    'ArtifactError',
    /weight 'w' is f32\[2,3\], the file's 'w' is f32\[3,2\]/,
  ],
  'safetensors of another type': [
    () => load(at('toy.wasm'), { weights: at('type.safetensors') }),
    'ArtifactError',
    /weight 'w' is f32\[2,3\], the file's 'w' is s32\[2,3\]/,
  ],
  'safetensors cut short': [
    () => load(at('toy.wasm'), { weights: at('short.safetensors') }),
    'ArtifactError',
    /short\.safetensors is cut short: it ends after \d+ bytes/,
  ],
  'safetensors with a damaged header': [
    () => load(at('toy.wasm'), { weights: at('header.safetensors') }),
    'ArtifactError',
    /not a safetensors file, or damaged: its header is not JSON/,
  ],
  'a worker that is not there': [
    () => load(at('toy.wasm'), { worker: at('none.js') }),
    'ArtifactError',
    /the worker failed: .*say where it is: load\(source, \{worker: '\/path\/worker\.js'\}\)/,
  ],
  'a broken module in a worker': [
    () => load(at('page.wasm'), { worker: true }),
    'ArtifactError',
    /page\.wasm is not a WebAssembly module: it is an HTML page/,
  ],
});

/** Cases of running, with an executable that is ready; the same in a worker, but for what `only` says. */
const running = (exe) => ({
  'too few arguments': [
    () => exe.run(X),
    'ArgumentError',
    /'toy' takes 2 arguments \(x: f32\[2,3\], k: s64\[\]\), got 1/,
  ],
  'too many arguments': [() => exe.run(X, K, X), 'ArgumentError', /takes 2 arguments .*, got 3/],
  'an array of another length': [
    () => exe.run(X.subarray(1), K),
    'ArgumentError',
    /argument 0 \('x'\) must be f32\[2,3\], a Float32Array of 6 elements; got a Float32Array of 5/,
  ],
  'an array of another type': [
    () => exe.run(new Float64Array(6), K),
    'ArgumentError',
    /Float32Array of 6 elements; got a Float64Array of 6/,
  ],
  'nested arrays of another shape': [
    () =>
      exe.run(
        [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
        K,
      ),
    'ArgumentError',
    /got nested arrays of another shape/,
  ],
  'null as argument': [() => exe.run(null, K), 'ArgumentError', /argument 0 \('x'\) must be .*; got null/],
  'a number that does not fit': [
    () => exe.run(X, 1.5),
    'ArgumentError',
    /argument 1 \('k'\) must be s64\[\].*; 1\.5 does not fit/,
  ],
  'an argument of a wrong name': [
    () => exe.run({ x: X, k: K, z: 1 }),
    'ArgumentError',
    /'toy' has no argument called 'z' \(known: x, k\)/,
  ],
  'an argument missing by name': [() => exe.run({ x: X }), 'ArgumentError', /argument 'k' is missing/],
  'a wrong option of a run': [
    () => exe.run({ x: X, k: K }, { timeout: 3 }),
    'ArgumentError',
    /after its arguments, run takes \{out,signal,.*\}, not 'timeout'/,
  ],
  'a run aborted before it began': [() => exe.run(X, K, { signal: AbortSignal.abort() }), 'AbortError', /abort/],
  'setting what is not there': [
    () => exe.set('v', X),
    'ArgumentError',
    /'toy' has no weight or state called 'v' \(known: w, count\)/,
  ],
  'setting an input': [() => exe.set('x', X), 'ArgumentError', /no weight or state called 'x'/],
  'a weight of another shape': [
    () => exe.set('w', new Float32Array(5)),
    'ArgumentError',
    /weight 'w' must be f32\[2,3\], a Float32Array of 6 elements; got a Float32Array of 5/,
  ],
  'getting an output': [() => exe.get('y'), 'ArgumentError', /no weight or state called 'y'/],
});

/**
 * @param {any} api the loader
 * @param {string} base where tests/web/test_misuse.py serves its files
 * @param {string[]} [without] cases that do not apply here
 */
export async function misuses({ load }, base, without = []) {
  const at = (name) => `${base}/${name}`;
  const wrong = [];
  let count = 0;
  const use = async (exe) => {
    await exe.set('w', W);
    const [y] = await exe.run(X, K);
    if (String(y) !== Y) throw new Error(`the next correct use gives ${y}`);
    return exe;
  };
  const fails = async (name, [work, kind, message], next) => {
    if (without.includes(name)) return;
    count++;
    try {
      await (async () => work())();
      wrong.push(`${name}: no error`);
    } catch (error) {
      if (error.name !== kind || !message.test(error.message)) wrong.push(`${name}: ${error.name}: ${error.message}`);
    }
    try {
      await next();
    } catch (error) {
      wrong.push(`${name}, after it: ${error} ${error.stack}`);
    }
  };

  for (const [name, misuse] of Object.entries(loading(load, at)))
    await fails(name, misuse, async () => (await use(await load(at('toy.wasm')))).dispose());

  for (const worker of [false, true]) {
    const where = worker ? ', in a worker' : '';
    const fresh = () => load(at('toy.wasm'), { worker });
    const exe = await fresh();
    await fails(
      `a weight that was not set${where}`,
      [() => exe.run(X, K), 'ArgumentError', /weight 'w' has not been set: call exe\.set\('w', ...\) first/],
      () => use(exe),
    );
    for (const [name, misuse] of Object.entries(running(exe))) await fails(name + where, misuse, () => use(exe));
    const trap = [new Float32Array(6).fill(-1), K];
    await fails(
      `a trap${where}`,
      [() => exe.run(...trap), 'RunError', /'toy' failed in step 0 of 3, affine\.1: /],
      async () => use(await fresh()),
    );
    await fails(
      `a run after a trap${where}`,
      [() => exe.run(X, K), 'RunError', /failed before: load it again/],
      async () => use(await fresh()),
    );
    exe.dispose();
    for (const [name, work] of Object.entries({
      run: () => exe.run(X, K),
      set: () => exe.set('w', W),
      get: () => exe.get('count'),
      profile: () => exe.profile(X, K),
    })) {
      await fails(
        `${name} after dispose${where}`,
        [work, 'RunError', /'toy' has been disposed of: load it again/],
        async () => (await use(await fresh())).dispose(),
      );
    }
  }

  const exe = await use(await load(at('toy.wasm'), { worker: true }));
  await fails(
    'an argument that no message carries',
    [() => exe.run(() => 1, K), 'ArgumentError', /an argument cannot be sent to a worker: /],
    () => use(exe),
  );
  const endless = [new Float32Array(6).fill(-2), K];
  const stop = new AbortController();
  await fails(
    'a run aborted in a worker',
    [
      async () => {
        const run = exe.run(...endless, { signal: stop.signal });
        await soon(50);
        stop.abort();
        return run;
      },
      'AbortError',
      /abort/,
    ],
    () => {},
  );
  await fails(
    'disposed of while it runs',
    [
      async () => {
        const run = exe.run(X, K);
        exe.dispose();
        return run;
      },
      'RunError',
      /disposed/,
    ],
    async () => (await use(await load(at('toy.wasm'), { worker: true }))).dispose(),
  );

  const here = await use(await load(at('toy.wasm')));
  await fails(
    'two runs at once',
    [
      async () => {
        const first = here.runAsync(X, K, { signal: new AbortController().signal });
        await soon(0);
        const both = await Promise.allSettled([
          here.runAsync(X, K, { signal: new AbortController().signal }),
          here.runAsync(X, K, { signal: new AbortController().signal }),
        ]);
        await first;
        for (const { reason } of both) if (reason) throw reason;
        throw Object.assign(new Error('each waited'), { name: 'RunError' });
      },
      'RunError',
      /'toy' is running: await that first|each waited/,
    ],
    () => use(here),
  );
  return { wrong, count };
}
