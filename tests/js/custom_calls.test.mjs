// Functions of the host in JavaScript. The artifacts lie in the folder MODULES; test_custom_calls.py makes them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { load } from '../../web/xla_wasm.js';

const bytes = (name) => readFileSync(join(process.env.MODULES, name));
const X = Float32Array.of(3, 1, 2);
const later = (value) => new Promise((resolve) => setTimeout(() => resolve(value), 1));

test('a synchronous function in a loop', async () => {
  const seen = [];
  const f = (x, { opaque, name }) => {
    seen.push([...x, opaque, name]);
    return x.map((v) => v + 1);
  };
  const exe = await load(bytes('loop.wasm'), { customCalls: { f } });
  assert.deepEqual(
    [...exe.run(0, X)[1]],
    [...X].map((v) => ((v + 1) * 2 + 1) * 4 + 2),
  );
  assert.deepEqual(seen[0], [3, 1, 2, '', 'y']);
  assert.equal(seen.length, 3);
  assert.deepEqual([...exe.run(3, X)[1]], [...X]);
  const spent = exe.profile(0, X);
  assert.equal(seen.length, 6);
  assert.ok(spent.some(([name]) => name === 'y'));
  assert.deepEqual([...exe.run(2, X)[1]], [8, 4, 6]);
  assert.deepEqual([...(await exe.runAsync(2, X))[1]], [8, 4, 6]);
});

test('an asynchronous function', async () => {
  const exe = await load(bytes('loop.wasm'), { customCalls: { f: async (x) => later(x.map((v) => v + 1)) } });
  const pending = exe.runAsync(0, X);
  assert.throws(() => exe.run(0, X), { name: 'RunError', message: /await runAsync before the next call/ });
  await assert.rejects(exe.runAsync(0, X), { name: 'RunError', message: /await runAsync/ });
  assert.deepEqual(
    [...(await pending)[1]],
    [...X].map((v) => ((v + 1) * 2 + 1) * 4 + 2),
  );
  assert.throws(() => exe.run(0, X), {
    name: 'RunError',
    message: /custom call 'f' \('y'\) gave a promise: call runAsync/,
  });
  assert.deepEqual([...(await exe.runAsync(2, X))[1]], [8, 4, 6]);
});

test('several operands and results', async () => {
  const f = (a, b) => [b, Float64Array.of(a.length)];
  const exe = await load(bytes('several.wasm'), { customCalls: { f } });
  assert.deepEqual(
    exe.run(X, BigInt64Array.of(5n)).map((array) => [...array]),
    [[5n], [3]],
  );
});

test('a function that is missing', async () => {
  for (const customCalls of [undefined, {}, { toString: () => X }, { f: 3 }]) {
    await assert.rejects(load(bytes('loop.wasm'), { customCalls }), {
      name: 'ArgumentError',
      message: /calls 'f', which takes \(f32\[3\]\) and gives \(f32\[3\]\).*customCalls: \{'f'/,
    });
  }
});

test('failures leave the executable usable', async () => {
  const answers = [];
  const f = () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const exe = await load(bytes('loop.wasm'), { customCalls: { f } });
  const wrong = [
    [new TypeError('no'), 'RunError', /custom call 'f' \('y'\) failed: TypeError: no/],
    [Float32Array.of(1), 'ArgumentError', /result 0 of custom call 'f' \('y'\) must be f32\[3\]/],
    [Float64Array.of(1, 2, 3), 'ArgumentError', /result 0/],
    [[X, X], 'ArgumentError', /must return 1 typed array \(f32\[3\]\)/],
    [undefined, 'ArgumentError', /must return 1/],
  ];
  for (const [answer, name, message] of wrong) {
    for (const run of [
      async (...args) => exe.run(...args),
      (...args) => exe.runAsync(...args),
      async (...args) => exe.profile(...args),
    ]) {
      answers.splice(0, 9, X, answer);
      await assert.rejects(run(0, X), { name, message });
      answers.splice(0, 9, X, X, X);
      assert.deepEqual([...exe.run(0, X)[1]], [6, 2, 4]);
    }
  }
});

test('a promise that is rejected', async () => {
  let fail = true;
  const exe = await load(bytes('loop.wasm'), {
    customCalls: { f: async (x) => (fail ? Promise.reject(new Error('gone')) : x) },
  });
  await assert.rejects(exe.runAsync(0, X), {
    name: 'RunError',
    message: /custom call 'f' \('y'\) failed: Error: gone/,
  });
  fail = false;
  assert.deepEqual([...(await exe.runAsync(0, X))[1]], [24, 8, 16]);
});

test('a manifest that lies about requests', async () => {
  for (const name of JSON.parse(readFileSync(join(process.env.MODULES, 'lies.json'), 'utf8'))) {
    await assert.rejects(
      load(bytes(name), { customCalls: { f: (x) => x } }),
      { name: 'ArtifactError', message: /manifest is wrong at request/ },
      name,
    );
  }
});
