// `runInPlace`: what it computes, what it refuses, and that it allocates nothing.

import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from '../../web/xla_wasm.js';

const site = process.env.SITE;
const RUNS = 5_000;

/**
 * The bytes that the heap of JavaScript grows by: nothing is collected meanwhile. The least of several times,
 * as an engine that compiles what has run often leaves its notes there.
 * @param {() => void} work
 */
function grown(work) {
  return Math.min(
    ...Array.from({ length: 4 }, () => {
      const before = process.memoryUsage().heapUsed;
      for (let i = 0; i < RUNS; i++) work();
      return process.memoryUsage().heapUsed - before;
    }),
  );
}

test('it allocates nothing', async () => {
  const exe = await load(`${site}/echo.wasm`);
  const [x, out] = [exe.input('x'), [exe.output('result.0')]];
  x.fill(1);
  const inPlace = grown(() => exe.runInPlace());
  const withArguments = grown(() => exe.run(x, { out }));
  assert.ok(inPlace < RUNS && withArguments > 50 * RUNS, `${inPlace} and ${withArguments} bytes in ${RUNS} runs`);
});

test('it is a run', async () => {
  const [exe, other] = await Promise.all([load(`${site}/echo.wasm`), load(`${site}/echo.wasm`)]);
  for (let i = 0; i < 3; i++) {
    exe.input('x').fill(i + 1);
    assert.equal(exe.runInPlace(), undefined);
    assert.deepEqual(exe.output('result.0').slice(), other.run(new Float32Array(128).fill(i + 1))[0]);
  }
});

test('it refuses what a run refuses', async () => {
  const exe = await load(`${site}/toy.wasm`);
  assert.throws(() => exe.runInPlace(), { name: 'ArgumentError', message: /weight 'w' has not been set/ });
  exe.set('w', new Float32Array(6));
  exe.runInPlace();
  exe.input('x')[0] = -1;
  assert.throws(() => exe.runInPlace(), { name: 'RunError', message: /'toy' failed in step 0 of 3, affine.1/ });
  exe.dispose();
  assert.throws(() => exe.runInPlace(), { name: 'RunError', message: /disposed/ });
  const remote = await load(`${site}/toy.wasm`, { worker: true });
  assert.throws(() => remote.runInPlace(), { name: 'UnsupportedError', message: /runs in a worker/ });
  remote.dispose();
});
