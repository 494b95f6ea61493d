// The JS host on the hand-written artifacts that tests/web/test_node.py puts into $FIXTURES.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { accept, TYPES } from '../../web/arrays.js';
import * as api from '../../web/xla_wasm.js';
import { decode, encode } from './vectors.mjs';

const { load, ArgumentError, ArtifactError, LimitError, RunError, UnsupportedError } = api;
const fixtures = process.env.FIXTURES;
const file = (name) => `${fixtures}/${name}`;
const X = Float32Array.of(1, -3, 3, 0.5, 0, 9);
const W = Float32Array.of(1, 2, 3, 4, 5, 6);
const K = BigInt64Array.of(41n);
const Y = [3.5, -3.25, 10, 6.25, 6.5, 25.75]; // 2 x + w + 0.5 + (0, 0.25, ...)

async function ready(name = 'toy.wasm') {
  const exe = await load(file(name));
  exe.set('w', W);
  return exe;
}

for (const { wasm, set, args, results } of JSON.parse(readFileSync(file('vectors.json'), 'utf8'))) {
  test(`vectors of ${wasm}`, async () => {
    const exe = await load(file(wasm));
    for (const [name, value] of Object.entries(set)) {
      exe.set(
        name,
        decode(
          value,
          exe.parameters.find((leaf) => leaf.name === name),
        ),
      );
      assert.equal(encode(exe.get(name)), value.data);
    }
    const inputs = exe.parameters.filter((leaf) => leaf.kind === 'input');
    const got = exe.run(...args.map((value, i) => decode(value, inputs[i])));
    assert.deepEqual(
      got.map(encode),
      results.map(({ data }) => data),
    );
  });
}

test('types in and out', async () => {
  const exe = await ready();
  const [y, k, positive] = exe.run(X, K);
  assert.deepEqual([y.constructor, k.constructor, positive.constructor], [Float32Array, BigInt64Array, Uint8Array]);
  assert.deepEqual([...y], Y);
  assert.deepEqual([...k, ...positive], [42n, 1, 0, 1, 1, 0, 1]);
  exe.run(new Float32Array(6), K);
  assert.deepEqual([...y], Y, 'results are copies');
});

test('arguments by name, as plain numbers, nested and flat', async () => {
  const exe = await ready();
  assert.deepEqual([...exe.run({ k: 41n, x: X })[0]], Y);
  assert.deepEqual(
    [
      ...exe.run(
        [
          [1, -3, 3],
          [0.5, 0, 9],
        ],
        41,
      )[0],
    ],
    Y,
  );
  assert.deepEqual([...exe.run([...X], [41].at(0))[0]], Y);
  assert.throws(() => exe.run({ x: X }), { name: 'ArgumentError', message: "argument 'k' is missing" });
  assert.throws(() => exe.run({ x: X, k: K, z: 1 }), {
    name: 'ArgumentError',
    message: "'toy' has no argument called 'z' (known: x, k)",
  });
});

test('console.log shows one line', async () => {
  const exe = await ready();
  const line =
    "<Executable 'toy': x f32[2,3], k s64[] -> y f32[2,3], k_next s64[], positive pred[2,3]; weight w f32[2,3]; " +
    'state count s32[]>';
  assert.equal(inspect(exe), line);
  const remote = await load(file('toy.wasm'), { worker: true });
  assert.equal(inspect({ remote }, { breakLength: Infinity }), `{ remote: ${line} }`);
  remote.dispose();
  assert.doesNotThrow(() => inspect(api.Executable.prototype));
  const leaf = { kind: 'input', element_type: 'f32', dimensions: [2] };
  const names = ['a\u001b[31m\nb', 'n'.repeat(1000), ...Array(1000).fill('x')];
  const large = Object.create(api.Executable.prototype, {
    manifest: { value: { name: 'large', parameters: names.map((name) => ({ ...leaf, name })), results: [] } },
  });
  assert.match(
    inspect(large),
    /^<Executable 'large': a\ufffd\[31m\ufffdb f32\[2\], n{39}\u2026 f32\[2\](, x f32\[2\]){2}, and 998 more -> no out/,
  );
});

test('wrong arguments', async () => {
  const exe = await ready();
  const throws = (args, message) => assert.throws(() => exe.run(...args), { name: 'ArgumentError', message });
  throws([X], "'toy' takes 2 arguments (x: f32[2,3], k: s64[]), got 1");
  throws(
    [new Float64Array(6), K],
    "argument 0 ('x') must be f32[2,3], a Float32Array of 6 elements; got a Float64Array of 6",
  );
  throws(
    [X.subarray(1), K],
    "argument 0 ('x') must be f32[2,3], a Float32Array of 6 elements; got a Float32Array of 5",
  );
  throws(
    [
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      K,
    ],
    /nested arrays of another shape$/,
  );
  throws(
    [
      [
        [1, 2, 3],
        [4, 5, 'a'],
      ],
      K,
    ],
    /; "a" does not fit$/,
  );
  throws(
    [
      [
        [1, 2, 3],
        [4, 5, 1e39],
      ],
      K,
    ],
    /; 1e\+39 does not fit$/,
  );
  throws([X, 1.5], /^argument 1 \('k'\) must be s64\[\], a BigInt64Array of 1 element; 1.5 does not fit$/);
  throws([X, 2n ** 63n], /; 9223372036854775808n does not fit$/);
  for (const bad of [null, undefined, 'a', new ArrayBuffer(8), new DataView(new ArrayBuffer(8)), () => 1])
    throws([X, bad], /^argument 1/);
  throws([X, {}], /takes 2 arguments .*, got 1$/); // options, of which there are none
  assert.equal(exe.get('count')[0], 0);
});

test('conversion of numbers', () => {
  const cases = [
    ['u8', 255, true],
    ['u8', 256, false],
    ['u8', -1, false],
    ['s8', -128, true],
    ['s8', 128, false],
    ['u64', 2n ** 64n - 1n, true],
    ['u64', -1, false],
    ['s64', 2 ** 53, false],
    ['s64', 5, true],
    ['s32', 1.5, false],
    ['u32', 5n, true],
    ['pred', true, true],
    ['pred', 1, true],
    ['pred', 2, false],
    ['s32', true, false],
    ['f32', Infinity, true],
    ['f32', NaN, true],
    ['f32', 0.1, true],
    ['f32', 1n, false],
    ['f64', 1e39, true],
    ['bf16', 1, false],
    ['f16', 1, 'Float16Array' in globalThis],
    ['c64', 1, false],
    ['s4', -8, true],
    ['s4', 8, false],
    ['u4', 15, true],
    ['u4', 16, false],
    ['s1', -1, true],
    ['s1', 1, false],
    ['u2', -1, false],
  ];
  for (const [element_type, value, fits] of cases) {
    const { array, components } = TYPES[element_type];
    const leaf = { element_type, dimensions: [], minor_to_major: [], bytes: array.BYTES_PER_ELEMENT * components };
    const work = () => accept(leaf, value, 'a');
    if (fits) assert.equal(work().constructor, array);
    else assert.throws(work, ArgumentError, `${element_type} ${value}`);
  }
  const complex = { element_type: 'c64', dimensions: [2], minor_to_major: [0], bytes: 16 };
  assert.deepEqual(
    [
      ...accept(
        complex,
        [
          [1, 2],
          [3, 4],
        ],
        'a',
      ),
    ],
    [1, 2, 3, 4],
  );
  assert.deepEqual([...accept(complex, [1, 2, 3, 4], 'a')], [1, 2, 3, 4]);
});

test('weights and state', async () => {
  const exe = await load(file('toy.wasm'));
  assert.throws(() => exe.run(X, K), {
    name: 'ArgumentError',
    message: "weight 'w' has not been set: call exe.set('w', ...) first",
  });
  assert.throws(() => exe.get('w'), ArgumentError);
  assert.throws(() => exe.set('x', X), { message: "'toy' has no weight or state called 'x' (known: w, count)" });
  exe.set('w', W);
  assert.deepEqual(exe.get('w'), W);
  exe.run(X, K);
  exe.run(X, K);
  assert.deepEqual(exe.get('count'), Int32Array.of(2));
  exe.set('count', 10);
  exe.run(X, K);
  assert.equal(exe.get('count')[0], 11);
});

test('profile', async () => {
  const exe = await ready();
  const times = exe.profile(X, K);
  assert.deepEqual(
    times.map(([name]) => name),
    ['affine.1', 'add.2', 'count.3'],
  );
  assert.ok(times.every(([, seconds]) => seconds >= 0 && seconds < 1));
});

test('a trap names the step', async () => {
  const exe = await ready();
  assert.throws(() => exe.run(new Float32Array(6).fill(-1), K), {
    name: 'RunError',
    message: /^'toy' failed in step 0 of 3, affine.1: .*unreachable/,
  });
  assert.throws(() => exe.run(X, K), { name: 'RunError', message: /load it again$/ });
  assert.throws(() => exe.get('count'), RunError);
});

test('sources', async () => {
  const bytes = readFileSync(file('toy.wasm'));
  const weights = readFileSync(file('toy.weights'));
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const wasm = { headers: { 'Content-Type': 'application/wasm' } };
  const sources = [
    bytes,
    buffer,
    new Uint8Array(buffer),
    await WebAssembly.compile(buffer),
    new Response(buffer),
    new Response(buffer, wasm),
    Promise.resolve(new Response(buffer, wasm)),
    `data:application/wasm;base64,${bytes.toString('base64')}`,
  ];
  for (const source of sources) {
    const exe = await load(source, { weights: new Response(weights) });
    exe.set('w', W);
    assert.deepEqual([...exe.run(X, K)[0]], Y);
  }
  for (const source of [pathToFileURL(file('toy.wasm')), pathToFileURL(file('toy.wasm')).href])
    assert.equal((await load(source)).manifest.name, 'toy');
  await assert.rejects(load(bytes), { name: 'ArtifactError', message: /must have 24 bytes and none was given/ });
  await assert.rejects(load(bytes, { weights: weights.subarray(4) }), {
    name: 'ArtifactError',
    message: /must have 24 bytes but has only 20/,
  });
  await assert.rejects(load(bytes, { weights: new Uint8Array(24) }), {
    name: 'ArtifactError',
    message: /weights of 'v' are not those/,
  });
  await assert.rejects(load(file('none.wasm')), { name: 'ArtifactError', message: /cannot read .*none\.wasm/ });
});

test('over HTTP', async (t) => {
  const types = {
    '/toy.wasm': 'application/wasm',
    '/wrong-type.wasm': 'application/octet-stream',
    '/page.wasm': 'text/html',
    '/lie.wasm': 'application/wasm',
  };
  const server = createServer((request, response) => {
    const path = request.url.split('?')[0];
    const body = path.endsWith('.weights')
      ? readFileSync(file('toy.weights'))
      : /page|lie/.test(path)
        ? '<!DOCTYPE html><p>Not here'
        : readFileSync(file('toy.wasm'));
    response.writeHead(path in types || path.endsWith('.weights') ? 200 : 404, {
      'Content-Type': types[path] ?? 'text/html',
    });
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = (path) => `http://127.0.0.1:${server.address().port}/${path}`;
  for (const source of [url('toy.wasm'), url('toy.wasm?v=2#a'), new URL(url('wrong-type.wasm'))]) {
    const exe = await load(source);
    exe.set('w', W);
    assert.deepEqual([...exe.run(X, K)[0]], Y);
  }
  await assert.rejects(load(url('none.wasm')), {
    name: 'ArtifactError',
    message: `cannot fetch ${url('none.wasm')}: HTTP 404 Not Found`,
  });
  await assert.rejects(load(url('page.wasm')), {
    name: 'ArtifactError',
    message: /page\.wasm is not a WebAssembly module: it is an HTML page/,
  });
  await assert.rejects(load(url('lie.wasm')), { name: 'ArtifactError', message: /^cannot compile .*lie\.wasm: / });
  await assert.rejects(load('http://127.0.0.1:9/a.wasm'), { name: 'ArtifactError', message: /^cannot fetch http/ });
});

test('builds for several targets', async () => {
  const relaxed = api.supports('relaxed-simd');
  assert.ok(api.supports('simd128'));
  assert.ok(!api.supports('toString'));
  assert.equal(relaxed, process.env.RELAXED === 'true');
  const exe = await load({ simd128: file('toy.wasm'), 'relaxed-simd': file('relaxed.wasm') });
  assert.equal(exe.manifest.name, relaxed ? 'toy relaxed' : 'toy');
  if (relaxed) {
    assert.equal((await load({ 'relaxed-simd': file('relaxed.wasm') })).manifest.name, 'toy relaxed');
  } else {
    await assert.rejects(load({ 'relaxed-simd': file('relaxed.wasm') }), {
      name: 'UnsupportedError',
      message: /lacks relaxed-simd/,
    });
    await assert.rejects(load(file('relaxed.wasm')), {
      name: 'ArtifactError',
      message: /this engine lacks relaxed-simd/,
    });
  }
});

test('limits', async () => {
  await assert.rejects(load(file('toy.wasm'), { memoryLimit: 65535 }), {
    name: 'LimitError',
    message: 'the module needs 65536 bytes of memory, the limit is 65535: load it with a higher memoryLimit',
  });
  await load(file('toy.wasm'), { memoryLimit: 65536 });
});

for (const name of JSON.parse(readFileSync(file('lies.json'), 'utf8'))) {
  test(`a manifest that lies: ${name}`, async () => {
    await assert.rejects(
      load(file(name), { weights: file('toy.weights') }),
      (error) => error instanceof ArtifactError || error instanceof UnsupportedError,
    );
  });
}

test('modules that lie', async () => {
  const cases = {
    'imports.wasm': [ArtifactError, /must import nothing, but imports a\.b/],
    'no-step.wasm': [ArtifactError, /exports no function 'step'/],
    'no-memory.wasm': [ArtifactError, /exports no memory 'memory'/],
    'start.wasm': [ArtifactError, /traps when it starts/],
    'big.wasm': [ArtifactError, /states 65536 bytes of memory, the module has 131072/],
    'waits.wasm': [RunError, /stated no requests/],
    'no-init.wasm': [RunError, /failed preparing the weights of 'b'/],
  };
  for (const [name, [kind, message]] of Object.entries(cases)) {
    await assert.rejects(
      ready(name).then((exe) => exe.run(X, K)),
      (error) => error instanceof kind && message.test(error.message),
      name,
    );
  }
});

test('damaged bytes throw only errors of the family', async () => {
  const good = readFileSync(file('toy.wasm'));
  let seed = 1;
  const random = (n) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % n;
  for (let i = 0; i < 300; i++) {
    const bytes = Uint8Array.from(good);
    // Only the manifest: damaged code may loop for ever, and nothing bounds it here.
    const from = good.indexOf('{"format"');
    for (let k = random(3); k >= 0; k--) bytes[from + random(bytes.length - from)] = 32 + random(95);
    try {
      const exe = await load(bytes.subarray(0, random(4) ? undefined : random(bytes.length)), {
        weights: file('toy.weights'),
      });
      for (const leaf of exe.parameters)
        if (leaf.kind !== 'input')
          exe.set(
            leaf.name,
            new TYPES[leaf.element_type].array(leaf.bytes / TYPES[leaf.element_type].array.BYTES_PER_ELEMENT),
          );
      exe.run(X, K);
    } catch (error) {
      assert.ok(error instanceof api.XlaWasmError, error.stack);
    }
  }
});

test('LimitError is exported', () => assert.ok(new LimitError('a') instanceof api.XlaWasmError));
