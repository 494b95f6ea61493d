// Results into arrays of the caller, and views of the memory, on the modules that tests/web/test_views_js.py puts into
// $FIXTURES.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from '../../web/xla_wasm.js';

const file = (name) => `${process.env.FIXTURES}/${name}.wasm`;
const A = Float32Array.of(1, 2, 3, 4, 5, 6);
const B = Float32Array.of(10, 30, 20, 50, 70, 60);
const minus = (a, b) => a.map((x, i) => x - b[i]);
const turned = (a) => Float32Array.of(a[0], a[3], a[1], a[4], a[2], a[5]);
const refused = (work, message) => assert.throws(work, { name: 'ArgumentError', message });

test('results are written into the arrays', async () => {
  const exe = await load(file('two'));
  const out = [new Float32Array(6), new Uint8Array(6), new Float32Array(6)];
  for (const scale of [1, -2]) {
    const a = A.map((x) => x * scale);
    const made = exe.run(a, B, { out });
    assert.equal(made, out);
    assert.deepEqual(out, [turned(a), Uint8Array.from(a, (x, i) => +(x > B[i])), minus(a, B)]);
  }
  const later = [new Float32Array(6), new Uint8Array(6), new Float32Array(6)];
  await exe.runAsync({ x: A, y: B }, { out: later });
  assert.deepEqual(later[2], minus(A, B));
  await exe.runAsync(B, A, { out: later, signal: new AbortController().signal });
  assert.deepEqual(later[2], minus(B, A));
});

test('a part of an array, shared memory, an argument, and by name', async () => {
  const exe = await load(file('two'), { named: true });
  const room = new Float32Array(20).fill(9);
  const shared = new Uint8Array(new SharedArrayBuffer(6));
  const a = A.slice();
  const result = exe.run(a, B, { out: [room.subarray(3, 9), shared, a] });
  assert.deepEqual(Object.keys(result), ['result.0', 'result.1', 'result.2']);
  assert.equal(result['result.2'], a);
  assert.deepEqual(a, minus(A, B));
  assert.deepEqual([...room], [...new Array(3).fill(9), ...turned(A), ...new Array(11).fill(9)]);
});

test('arrays that do not fit', async () => {
  const exe = await load(file('two'));
  const good = () => [new Float32Array(6), new Uint8Array(6), new Float32Array(6)];
  refused(() => exe.run(A, B, { out: [] }), 'out is a list of 3 arrays, one for each result, not 0');
  refused(
    () => exe.run(A, B, { out: good().with(0, new Float64Array(6)) }),
    /^out: result 'result.0' must be f32\[3,2\], a Float32Array of 6 elements; got a Float64Array of 6/,
  );
  refused(
    () => exe.run(A, B, { out: good().with(1, new Uint8Array(5)) }),
    /^out: result 'result.1' must be pred\[2,3\].*got a Uint8Array of 5/,
  );
  refused(() => exe.run(A, B, { out: good().with(1, [0, 0, 0, 0, 0, 0]) }), /got null/);
  refused(() => exe.run(A, B, { out: 3 }), /out is a list/);
  const gone = good();
  const running = exe.runAsync(A, B, { out: gone });
  structuredClone(gone[0].buffer, { transfer: [gone[0].buffer] });
  await assert.rejects(running, { name: 'ArgumentError', message: /got a Float32Array of 0/ });
  assert.equal(exe.run(A, B).length, 3);
});

test('a run that fails leaves them', async () => {
  const exe = await load(file('calls'), { customCalls: { mine: (n) => (n[0] < 0 ? assert.fail('no') : n) } });
  const out = [new Float32Array(6).fill(7)];
  assert.throws(() => exe.run(A, { out }), { name: 'RunError' });
  assert.deepEqual(out[0], new Float32Array(6).fill(7));
  exe.run(
    A.map((x) => -x),
    { out },
  );
  assert.deepEqual(out[0], A);
});

test('what is written into a view runs, and what comes is there', async () => {
  const exe = await load(file('sub'));
  const [x, y, s] = [exe.input('x'), exe.input('y'), exe.output('result')];
  x.set(A);
  y.set(B);
  const made = exe.run(x, y, { out: [s] });
  assert.equal(made[0], s);
  assert.deepEqual(s, minus(A, B));
  x[0] = 100;
  exe.run(x, y, { out: [s] });
  assert.equal(s[0], 90);
  assert.deepEqual(y, B);
});

test('arguments that lie in the places of others', async () => {
  const exe = await load(file('sub'));
  const [x, y, s] = [exe.input('x'), exe.input('y'), exe.output('result')];
  x.set(A);
  y.set(B);
  assert.deepEqual(exe.run(y, x)[0], minus(B, A));
  assert.deepEqual([x, y], [B, A]);
  assert.deepEqual(exe.run(s, x)[0], minus(minus(B, A), B));
  x.set(A);
  y.set(B);
  const inner = new Float32Array(x.buffer, x.byteOffset, 6);
  assert.deepEqual(exe.run(y, inner)[0], minus(B, A), 'an array that a caller made of the memory is one of it too');
});

test('results into the places of others', async () => {
  const exe = await load(file('pass'));
  const [x, y] = [exe.input('x'), exe.input('y')];
  const [d, p] = [exe.output('result.0'), exe.output('result.1')];
  for (const out of [
    [d, p],
    [y, new Float32Array(6)],
    [x, p],
    [new Float32Array(6), x],
    [d, x],
  ]) {
    x.set(A);
    y.set(B);
    exe.run(x, y, { out });
    assert.deepEqual(out, [minus(A, B), B]);
  }
});

test('weights and states', async () => {
  const exe = await load(file('held'));
  const [x, m] = [exe.input('x'), exe.output('result.1')];
  exe.set('w', B);
  exe.set('h', A);
  x.set(A);
  for (const times of [1, 2]) {
    exe.run(x, { out: [m] });
    assert.deepEqual(
      m,
      A.map((a, i) => a * B[i]),
    );
    assert.deepEqual(
      exe.get('h'),
      A.map((a, i) => a + times * a * B[i]),
    );
  }
  exe.set('h', x);
  exe.set('w', m);
  assert.deepEqual([exe.get('h'), exe.get('w')], [A, A.map((a, i) => a * B[i])]);
  refused(() => exe.input('w'), "'module_e' has no argument called 'w' (known: x)");
});

test('views end with the executable', async () => {
  const exe = await load(file('sub'));
  const [x, s] = [exe.input('x'), exe.output('result')];
  exe.run(A, B);
  assert.deepEqual(s, minus(A, B));
  exe.dispose();
  assert.deepEqual([x.length, s.length], [0, 0]);
  assert.throws(() => exe.input('x'), { name: 'RunError', message: /disposed/ });
  exe.dispose();
});

test('types', async () => {
  for (const [type, kind] of Object.entries({
    pred: 'Uint8',
    s4: 'Int8',
    u2: 'Uint8',
    bf16: 'Uint16',
    f8e4m3fn: 'Uint8',
    c64: 'Float32',
    s64: 'BigInt64',
    f64: 'Float64',
  })) {
    const exe = await load(file(`copy-${type}`));
    const [x, y] = [exe.input('x'), exe.output('result')];
    assert.equal(x.constructor.name, `${kind}Array`);
    const given = x.map((_, i) => (kind === 'BigInt64' ? BigInt(i % 2) : i % 2));
    x.set(given);
    exe.run(x, { out: [y] });
    assert.deepEqual(y, given, type);
    const own = new x.constructor(x.length);
    exe.run(given, { out: [own] });
    assert.deepEqual(own, given, type);
  }
});

test('where there are none', async () => {
  const two = await load(file('two'));
  refused(() => two.output('result.0'), "'result.0': a view needs a row-major layout");
  refused(() => two.output('y'), "'m' has no result called 'y' (known: result.0, result.1, result.2)");
  const dynamic = await load(file('dynamic'));
  refused(() => dynamic.input('x'), "'x': a view goes with logical arrays of fixed sizes only");
  refused(
    () => dynamic.run(A, { out: [new Float32Array(6)] }),
    "'result': out goes with logical arrays of fixed sizes only",
  );
  const physical = await load(file('sub'), { physical: true });
  refused(() => physical.input('x'), /a view goes with logical arrays/);
  refused(
    () => physical.run(new Uint8Array(24), new Uint8Array(24), { out: [new Float32Array(6)] }),
    /out goes with logical arrays/,
  );
  const remote = await load(file('sub'), { worker: true });
  assert.throws(() => remote.input('x'), {
    name: 'UnsupportedError',
    message: /runs in a worker: there is no view of 'x'/,
  });
  assert.throws(() => remote.output('result'), { name: 'UnsupportedError', message: /no view of 'result'/ });
  await assert.rejects(remote.run(A, B, { out: [new Float32Array(6)] }), {
    name: 'UnsupportedError',
    message: /there is no \{out\}/,
  });
  remote.dispose();
  const strange = await load(file('sub'), { untrusted: true });
  assert.throws(() => strange.output('result'), { name: 'UnsupportedError' });
  strange.dispose();
  const many = await load(file('many'), { devices: 2 });
  assert.throws(() => many.input('x'), { name: 'UnsupportedError', message: /runs on several devices/ });
  await assert.rejects(many.runReplicated([[A], [A]], { out: [] }), { name: 'ArgumentError' });
  many.dispose();
});
