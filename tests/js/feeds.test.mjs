// Infeed, outfeed, send and recv in JavaScript, here and in a worker. The artifacts lie in the folder MODULES;
// test_feeds.py makes them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Queue } from '../../web/requests/feeds.js';
import { load } from '../../web/xla_wasm.js';

const at = (name) => join(process.env.MODULES, name);
const bytes = (name) => readFileSync(at(name));
const X = Float32Array.of(1, 2, 3);
const Y = Float32Array.of(10, 20, 30);
const later = (value) => new Promise((resolve) => setTimeout(() => resolve(value), 1));
const sum = (...arrays) => arrays.reduce((a, b) => a.map((v, i) => v + b[i]));
const lists = (items) => items.map((item) => [...item]);

async function* slowly(items) {
  for (const item of items) yield await later(item);
}

async function* ending() {
  yield X;
  throw new TypeError('gone');
}

/** Runs a test on an executable here, and on one in a worker. */
function both(name, file, run, options = {}) {
  test(name, async () => run(await load(bytes(file), options)));
  test(`${name}, in a worker`, async () => {
    const exe = await load(bytes(file), { ...options, worker: true });
    await run(exe);
    exe.dispose();
  });
}

test('without promises', async () => {
  const exe = await load(bytes('loop.wasm'));
  const out = [];
  const [result] = exe.run(2, X, { infeed: [Y, [2, 2, 2]], outfeed: (item) => out.push(item) });
  assert.deepEqual([...result], [-13, -24, -35]);
  assert.deepEqual(lists(out), [
    [11, 22, 33],
    [13, 24, 35],
    [13, 24, 35],
  ]);
  const spent = exe.profile(3, X, { infeed: [Y], outfeed: [] });
  assert.ok(spent.some(([name]) => name === 'f'));
  assert.throws(() => exe.run(3, X, { infeed: slowly([Y]), outfeed: [] }), {
    name: 'RunError',
    message: /infeed 'f' gave a promise: call runAsync/,
  });
  assert.throws(() => exe.run(3, X, { infeed: [Y], outfeed: async () => {} }), {
    name: 'RunError',
    message: /outfeed 'o' gave a promise: call runAsync/,
  });
  assert.deepEqual([...exe.run(4, X, { infeed: [], outfeed: [] })[0]], [-1, -2, -3]);
});

both('iterables of every kind', 'loop.wasm', async (exe) => {
  const expected = [...sum(X, Y, Y).map((v) => -v)];
  for (const infeed of [
    [Y, Y],
    [[Y], [Y]],
    new Set([Y, Y.slice()]),
    slowly([Y, Y]),
    [later(Y), later(Y)],
    (function* () {
      yield Y;
      yield [10, 20, 30];
    })(),
  ]) {
    const out = [];
    const [result] = await exe.runAsync(2, X, { infeed, outfeed: async (item) => out.push(await later(item)) });
    assert.deepEqual([...result], expected);
    assert.deepEqual(lists(out), lists([sum(X, Y), sum(X, Y, Y), sum(X, Y, Y)]));
  }
});

both('queues', 'loop.wasm', async (exe) => {
  const [fed, out] = [new Queue(), new Queue()];
  const running = exe.runAsync(1, X, { infeed: fed, outfeed: out });
  running.then(() => out.close());
  fed.push(Y);
  const seen = [];
  for await (const item of out) {
    seen.push([...item]);
    // Each item is made of what came out before.
    if (seen.length < 3) fed.push(item);
  }
  assert.deepEqual([...(await running)[0]], [...X.map((v, i) => -4 * (v + Y[i]))]);
  assert.deepEqual(
    seen,
    lists([sum(X, Y), sum(X, Y).map((v) => 2 * v), sum(X, Y).map((v) => 4 * v), sum(X, Y).map((v) => 4 * v)]),
  );
  assert.throws(() => out.push(X), { name: 'ArgumentError', message: /closed/ });
  assert.deepEqual(await out.next(), { done: true, value: undefined });
});

both('an iterator goes on from run to run', 'loop.wasm', async (exe) => {
  const infeed = [Y, X, Y].values();
  for (const item of [Y, X])
    assert.deepEqual([...(await exe.runAsync(3, X, { infeed, outfeed: [] }))[0]], [...sum(X, item).map((v) => -v)]);
  assert.equal([...infeed].length, 1);
});

both('tuples, names and types', 'tuples.wasm', async (exe) => {
  const out = [];
  const sent = { loss: [], channel_3: [] };
  const recv = { rate: [Float64Array.of(0.5)], channel_4: slowly([BigInt64Array.of(7n, 8n)]) };
  const item = [Float32Array.of(1, 2), Int8Array.of(-3)];
  const [result] = await exe.runAsync({ infeed: [item, item], outfeed: out, send: sent, recv });
  assert.deepEqual([...result], [1, 2]);
  assert.deepEqual(
    out.map((arrays) => arrays.map((array) => [array.constructor.name, ...array])),
    [
      [
        ['Float32Array', 1, 2],
        ['Int8Array', -3],
      ],
    ],
  );
  assert.deepEqual(sent, { loss: [Float64Array.of(0.5)], channel_3: [BigInt64Array.of(7n, 8n)] });
  const ends = { infeed: [item], outfeed: [], send: sent };
  await assert.rejects(exe.runAsync(ends), {
    name: 'ArgumentError',
    message: /'m' receives f64\[1\] in recv-done '\w+': run\(\.\.\., \{recv: \{'rate': items\}\}\)/,
  });
  await assert.rejects(exe.runAsync({ ...ends, recv: { ...recv, rat: [] } }), {
    name: 'ArgumentError',
    message: /no recv of the name 'rat' \(known: 'rate', 'channel_4'\)/,
  });
  await assert.rejects(exe.runAsync({ ...ends, infeed: [Y], recv }), {
    name: 'ArgumentError',
    message: /infeed 'f', item 0 of this run: it must be 2 typed arrays, \(f32\[2\], s8\[1\]\)/,
  });
});

both('errors say what is wanted, and the next run works', 'loop.wasm', async (exe) => {
  const wrong = [
    [{}, 'ArgumentError', /'m' takes f32\[3\] in infeed 'f': run\(\.\.\., \{infeed: items\}\)/],
    [
      { infeed: [X] },
      'ArgumentError',
      /'m' gives f32\[3\] in outfeed 'o': run\(\.\.\., \{outfeed: \(item\) => \.\.\.\}\)/,
    ],
    [
      { infeed: 3, outfeed: [] },
      'ArgumentError',
      /infeed must be an iterable or an async iterable of items, got number/,
    ],
    [
      { infeed: [X], outfeed: 3 },
      'ArgumentError',
      /outfeed must be a function, or an object with a method push; got number/,
    ],
    [
      { infeed: [X], outfeed: [], send: { a: () => {} } },
      'ArgumentError',
      /no send of the name 'a' \(known: it has none\)/,
    ],
    [
      { infeed: [X], outfeed: [], recv: [X] },
      'ArgumentError',
      /recv must be an object with a member for each name, as in \{recv: \{'name': items\}\}/,
    ],
    [{ infeed: [X], outfeed: [] }, 'RunError', /infeed 'f' takes item 1 of this run, f32\[3\], but its feed has ended/],
    [
      { infeed: [X, Float64Array.of(1, 2, 3)], outfeed: [] },
      'ArgumentError',
      /infeed 'f', item 1 of this run: .* must be f32\[3\], a Float32Array of 3 elements; got a Float64Array of 3/,
    ],
    [{ infeed: [X, [1, 2]], outfeed: [] }, 'ArgumentError', /item 1 of this run: the array must be f32\[3\]/],
    [
      {
        infeed: [X, X],
        outfeed: () => {
          throw new TypeError('full');
        },
      },
      'RunError',
      /outfeed 'o' failed: .*TypeError: full/,
    ],
    [{ infeed: ending(), outfeed: [] }, 'RunError', /infeed 'f' failed: .*TypeError: gone/],
    [
      { feed: [X] },
      'ArgumentError',
      /after its arguments, run takes \{out,signal,named,infeed,outfeed,send,recv\}, not 'feed'/,
    ],
  ];
  for (const [options, name, message] of wrong) {
    const ends = Object.keys(options).length ? [options] : [];
    await assert.rejects(exe.runAsync(2, X, ...ends), { name, message }, String(message));
    assert.deepEqual(
      [...(await exe.runAsync(2, X, { infeed: [X, Y], outfeed: [] }))[0]],
      [...sum(X, X, Y).map((v) => -v)],
    );
  }
});

both('a module without transfers refuses them', 'plain.wasm', async (exe) => {
  await assert.rejects(exe.runAsync(X, { infeed: [] }), {
    name: 'ArgumentError',
    message: /'m' was given infeed, but there is no infeed in it/,
  });
  assert.deepEqual([...(await exe.runAsync(X))[0]], [-1, -2, -3]);
});

both('a signal ends a run that waits for items', 'loop.wasm', async (exe) => {
  const controller = new AbortController();
  const fed = new Queue();
  const running = exe.runAsync(0, X, { infeed: fed, outfeed: [], signal: controller.signal });
  fed.push(Y);
  await later();
  controller.abort(new Error('enough'));
  await assert.rejects(running, { message: 'enough' });
  assert.deepEqual([...(await exe.runAsync(3, X, { infeed: [Y], outfeed: [] }))[0]], [...sum(X, Y).map((v) => -v)]);
});

both('arrays of any size up to a bound', 'dynamic.wasm', async (exe) => {
  for (const size of [0, 2, 4]) {
    const out = [];
    const item = Object.assign(
      Float32Array.from({ length: 2 * size }, (_, i) => i),
      { shape: [size, 2] },
    );
    const [total] = await exe.runAsync({ infeed: [item], outfeed: out });
    assert.deepEqual(
      [...total],
      [...item].reduce((sums, v, i) => ((sums[i % 2] += 2 * v), sums), [0, 0]),
    );
    assert.deepEqual([[...out[0]], out[0].shape], [[...item].map((v) => 2 * v), [size, 2]]);
  }
  await assert.rejects(exe.runAsync({ infeed: [new Float32Array(10)], outfeed: [] }), {
    name: 'ArgumentError',
    message: /infeed 'f', item 0 of this run: the array must be f32\[<=4,2\]/,
  });
});

both(
  'the bytes of layouts',
  'turned.wasm',
  async (exe) => {
    const out = [];
    const tiled = new Uint8Array(Float32Array.of(0, 3, 1, 4, 2, 5, 0, 0).buffer);
    const [result] = await exe.runAsync(Uint8Array.of(1, 254, 3, 252), { infeed: [tiled], outfeed: out });
    assert.deepEqual([...new Float32Array(result.buffer)], [0, 3, 1, 4, 2, 5]);
    assert.deepEqual([...new Float32Array(out[0][0].slice().buffer)], [0, 3, 1, 4, 2, 5]);
    assert.deepEqual([...out[0][1]], [0xe1, 0xc3]);
  },
  { physical: true },
);

test('a manifest that lies about transfers', async () => {
  for (const name of JSON.parse(readFileSync(at('lies.json'), 'utf8'))) {
    await assert.rejects(load(bytes(name)), { name: 'ArtifactError', message: /manifest is wrong at request/ }, name);
  }
});

test('several devices, each with feeds of its own', async () => {
  const group = await load(bytes('loop.wasm'), { devices: 2 });
  const outs = [[], new Queue()];
  const results = await group.runReplicated(
    [
      [2, X],
      [2, Y],
    ],
    { infeed: [[X, Y], slowly([Y, Y])], outfeed: outs },
  );
  assert.deepEqual(
    results.map(([result]) => [...result]),
    [lists([sum(X, X, Y)]), lists([sum(Y, Y, Y)])].map(([sums]) => sums.map((v) => -v)),
  );
  outs[1].close();
  const second = [];
  for await (const item of outs[1]) second.push([...item]);
  assert.deepEqual([outs[0].length, second], [3, lists([sum(Y, Y), sum(Y, Y, Y), sum(Y, Y, Y)])]);
  await assert.rejects(
    group.runReplicated(
      [
        [2, X],
        [2, Y],
      ],
      { infeed: [[X, Y]], outfeed: outs },
    ),
    { name: 'ArgumentError', message: /infeed must be a list with an entry for each of 2 devices; got 1 entry/ },
  );
  await assert.rejects(
    group.runReplicated(
      [
        [2, X],
        [2, Y],
      ],
      { infeed: [[X, X], [X]], outfeed: [[], []] },
    ),
    { message: /device 1.*infeed 'f' takes item 1 of this run/ },
  );
  assert.equal(
    (
      await group.runReplicated(
        [
          [3, X],
          [3, Y],
        ],
        { infeed: [[X], [X]], outfeed: [[], []] },
      )
    ).length,
    2,
  );
  group.dispose();
});

both('what a device sends to itself comes in order', 'thrice.wasm', async (exe) => {
  for (const x of [X, Y]) assert.deepEqual(lists(await exe.runAsync(x)), lists([x, x.map((v) => -v)]));
});

test('a send to the other device, which is listed after the receipt', async () => {
  const exe = await load(bytes('sent.wasm'));
  assert.deepEqual([...exe.run(X)[0]], [...X]);
  const group = await load(bytes('sent.wasm'), { devices: 2 });
  assert.deepEqual(
    (await group.runReplicated([[X], [Y]])).map(([result]) => [...result]),
    lists([Y, X]),
  );
  group.dispose();
  await assert.rejects(load(bytes('sent.wasm'), { devices: 3 }), { name: 'ArgumentError', message: /2/ });
});
