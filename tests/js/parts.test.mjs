// A weight that comes in parts, on the module that tests/plan/test_bring.py puts into $FIXTURES.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from '../../web/xla_wasm.js';

const file = (name) => readFileSync(`${process.env.FIXTURES}/${name}`);
const wasm = file('parts.wasm');
const { w, i, x, expected } = JSON.parse(file('parts.json'));
const right = (exe) =>
  assert.deepEqual(
    exe.run(Int32Array.from(i), Float32Array.from(x)).map((y) => [...y]),
    expected,
  );

test('an array is set part by part', async () => {
  const exe = await load(wasm);
  const { part, bytes } = exe.manifest.inits[0];
  assert.ok(part > 0 && 2 * part <= bytes);
  exe.set(
    'w',
    Float32Array.from(w, (number) => -number),
  );
  exe.set('w', Float32Array.from(w));
  right(exe);
  assert.deepEqual([...exe.get('w')], w);
});

for (const name of ['f32', 'f16', 'int8'])
  test(`a file of ${name} is poured part by part`, async () => {
    const told = [];
    right(await load(wasm, { weights: file(`${name}.safetensors`), onProgress: (done) => told.push(done) }));
    assert.ok(told.length);
    right(await load(wasm, { weights: new Response(file(`${name}.safetensors`)) }));
  });
