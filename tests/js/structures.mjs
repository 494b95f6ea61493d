// Arguments, results and weights by name and in structures, in Node, Deno, Bun and in pages:
// tests/web/test_structures_js.py makes and serves the modules, and compares what comes out with what Python's host
// gives.

import { checks } from './devices.mjs';

/** A record with fields, and more that nobody asks for. */
class Record {
  unasked = 'no leaf';
  get more() {
    throw new Error('nobody asks for this');
  }

  constructor(fields) {
    for (const [key, value] of fields) Object.defineProperty(this, key, { value, enumerable: true });
  }
}

/** A structure as JSON has it: [kind, ...]. */
export function made([kind, ...rest]) {
  if (kind === 'none') return rest[0] ? undefined : null;
  if (kind === 'leaf') return Float32Array.from(rest[0]);
  if (kind === 'list') return rest[0].map(made);
  const fields = rest[0].map(([key, value]) => [key, made(value)]);
  if (kind === 'object') return new Record(fields);
  return kind === 'map' ? new Map(fields) : Object.fromEntries(fields);
}

/** What came out, as JSON. */
function shown(value) {
  if (value === null) return ['none'];
  if (ArrayBuffer.isView(value)) return ['leaf', [...value]];
  if (Array.isArray(value)) return ['list', value.map(shown)];
  if (Object.getPrototypeOf(value) !== Object.prototype) throw new Error(`neither a list nor an object: ${value}`);
  return [
    'dict',
    Object.keys(value)
      .sort()
      .map((key) => [key, shown(value[key])]),
  ];
}

async function outcome(work) {
  try {
    return shown(await work());
  } catch (error) {
    return ['error', error.name, error.message];
  }
}

const ways = {
  call: (exe, given) => exe.call(...given.map(([, value]) => made(value))),
  'call by name': (exe, given) => exe.call(Object.fromEntries(given.map(([name, value]) => [name, made(value)]))),
  'call, awaited': (exe, given) =>
    exe.callAsync(...given.map(([, value]) => made(value)), { signal: new AbortController().signal }),
  run: (exe, given) => exe.run(...given.map(([, value]) => made(value))),
  'run by name': (exe, given) => exe.run(Object.fromEntries(given.map(([name, value]) => [name, made(value)]))),
  'run, named': (exe, given) =>
    exe.run(Object.fromEntries(given.map(([name, value]) => [name, made(value)])), { named: true }),
  get: (exe, [[name]]) => exe.get(name),
  set: async (exe, [[name, value]]) => {
    await exe.set(name, made(value));
    return exe.get(name);
  },
  replicated: (exe, given) =>
    exe.runReplicated([
      given.map(([, value]) => made(value)),
      Object.fromEntries(given.map(([name, value]) => [name, made(value)])),
    ]),
};

/** What each way of each case gives. */
export async function structures({ load }, base, cases) {
  const outcomes = [];
  for (const { file, options, weights, asked } of cases) {
    const exe = await load(`${base}/${file}`, options);
    for (const [name, value] of weights) await exe.set(name, made(value));
    const given = [];
    for (const [way, values] of asked) given.push(await outcome(() => ways[way](exe, values)));
    exe.dispose();
    outcomes.push(given);
  }
  return outcomes;
}

const W = Float32Array.of(0, 1, 2, 3, 4, 5);
const B = Float32Array.of(1, -1);
const X = Float32Array.from({ length: 9 }, (_, i) => i);
const Y = [11, 12, 29, 39, 47, 66];
const params = { w: W, b: [B] };

/** What tests/host/test_structures.py does with the same function in Python. */
export async function handmade({ load }, base, { where }) {
  const { wrong, test, equal, rejects } = checks();
  const options = { here: {}, worker: { worker: true } }[where];
  const using = (file, work, more) =>
    test(`${file}: ${work.name || work}`, async () => {
      const exe = await load(`${base}/${file}`, { ...options, ...more });
      try {
        await work(exe);
      } finally {
        exe.dispose();
      }
    });
  const fails = (file, cases) =>
    using(file, async (exe) => {
      for (const [name, [work, message]] of Object.entries(cases)) {
        await test(name, () => rejects((async () => work(exe))(), 'ArgumentError', message));
      }
    });
  const isY = ([sums, top, y]) => equal([[...sums], [...top], [...y]], [[36], [8], Y]);

  await using('f.wasm', async function waysToGiveArguments(exe) {
    isY(await exe.run(B, W, X, 1));
    isY(await exe.run(params, X, 1));
    isY(await exe.run({ scale: 1, params, x: X }));
    isY(await exe.run({ x: X, 'params.w': W, 'params.b.0': B, scale: 1 }));
    isY(await exe.run({ x: X, 'params.b': { 0: B }, 'params.w': W, scale: 1 }));
    isY(await exe.run(new Map(Object.entries({ x: X, params, scale: 1 }))));
    isY(await exe.run(Object.assign(new (class Params {})(), { ...params, other: 1 }), X, 1));
    isY(
      await exe.run({
        x: [
          [0, 1, 2],
          [3, 4, 5],
          [6, 7, 8],
        ],
        params: {
          w: [
            [0, 1],
            [2, 3],
            [4, 5],
          ],
          b: [[1, -1]],
        },
        scale: 1,
      }),
    );
    isY(await exe.runAsync({ x: X, params, scale: 1 }, { signal: new AbortController().signal }));
    isY(Object.values(await exe.run(params, X, 1, { named: true })));
    equal(Object.keys(await exe.run({ params, x: X, scale: 1 }, { named: true })), ['sums.0', 'sums.1.0', 'y']);
    isY(await exe.run({ params, x: X, scale: 1 }, {}));
    for (const got of [
      await exe.call(params, X, 1),
      await exe.call({ params, x: X, scale: 1 }),
      await exe.callAsync(params, X, 1, { signal: new AbortController().signal }),
    ]) {
      equal([[...got.y], [...got.sums[0]], [...got.sums[1][0]], Object.keys(got)], [Y, [36], [8], ['sums', 'y']]);
    }
    equal((await exe.profile(params, X, 1)).length > 0, true);
  });
  await using(
    'f.wasm',
    async function namesByDefault(exe) {
      equal([...(await exe.run(params, X, 1)).y], Y);
      isY(await exe.run(params, X, 1, { named: false }));
      equal([...(await exe.call(params, X, 1)).y], Y);
    },
    { named: true },
  );
  await fails('f.wasm', {
    'a leaf is missing': [
      (exe) => exe.run({ w: W }, X, 1),
      /^'jit_f': the argument 'params\.b\.0' \(f32\[2\]\) is missing$/,
    ],
    'a leaf is undefined': [
      (exe) => exe.run({ w: W, b: [undefined] }, X, 1),
      /the argument 'params\.b\.0' \(f32\[2\]\) is missing$/,
    ],
    'an argument is missing': [(exe) => exe.run({ params, x: X }), /the argument 'scale' \(f32\[\]\) is missing/],
    'one leaf too many': [
      (exe) => exe.run({ ...params, c: B }, X, 1),
      /has no argument called 'params\.c' \(known: params\.b\.0, params\.w, x, scale\)/,
    ],
    'a name with an error': [(exe) => exe.run({ params, y: X, scale: 1 }), /has no argument called 'y'/],
    'an array for a structure': [
      (exe) => exe.run({ params: W, x: X, scale: 1 }),
      /'params' stands for params\.b\.0, params\.w: give an object or a list of them, not Float32Array/,
    ],
    'a number for a structure': [
      (exe) => exe.run({ params: 3, x: X, scale: 1 }),
      /'params' stands for params\.b\.0, params\.w: .*, not number/,
    ],
    'the length of a leaf': [
      (exe) => exe.run({ w: B, b: [B] }, X, 1),
      /argument 1 \('params\.w'\) must be f32\[3,2\], a Float32Array of 6 elements; got a Float32Array of 2/,
    ],
    'a structure for a leaf': [
      (exe) => exe.run({ w: { a: W }, b: [B] }, X, 1),
      /'params\.w' \(f32\[3,2\]\) must be one array, not a structure of several/,
    ],
    twice: [
      (exe) => exe.run({ params, 'params.w': W, x: X, scale: 1 }),
      /two of the arguments given are called 'params\.w'/,
    ],
    'too many': [
      (exe) => exe.run(params, X, 1, 2, 3),
      /'jit_f' takes \(params, x, scale\), or an array for each input; got 5/,
    ],
    'too few arrays': [(exe) => exe.run(W, X), /'jit_f' takes 4 arguments \(params\.b\.0: f32\[2\], .*\), got 2/],
    'the only structure': [(exe) => exe.run(params), /the argument 'x' \(f32\[3,3\]\) is missing/],
    'no end': [
      (exe) =>
        exe.run(
          {
            w: W,
            b: [B],
            c: (() => {
              const list = [];
              list.push(list);
              return list;
            })(),
          },
          X,
          1,
        ),
      /'params\.c\.0\.0.*' is deeper than any structure may be/,
    ],
    'a wrong option': [
      (exe) => exe.run({ params, x: X, scale: 1 }, { out: [], timeout: 3 }),
      /run takes \{.*\}, not 'timeout'|argument/,
    ],
    'call: a leaf': [(exe) => exe.call({ w: W }, X, 1), /^'params\.b' is missing: 'params\.b\.0' \(f32\[2\]\)$/],
    'call: a key': [(exe) => exe.call({ ...params, c: 1 }, X, 1), /^'params' has no 'c': it has b, w$/],
    'call: an argument': [
      (exe) => exe.call({ params, scale: 1 }),
      /'jit_f' takes \(params, x, scale\): 'x' is missing/,
    ],
    'call: a name': [
      (exe) => exe.call({ params, x: X, scales: 1 }),
      /takes \(params, x, scale\): there is no 'scales'/,
    ],
    'call: too many': [(exe) => exe.call(params, X, 1, 2), /takes \(params, x, scale\): got 4/],
    'call: no structure': [(exe) => exe.call(W, X, 1), /'params' must be an object of b, w, not Float32Array/],
    'call: nothing': [(exe) => exe.call(null, X, 1), /'params' must be an object of b, w, not null/],
    'call: a list': [(exe) => exe.call({ w: W, b: B }, X, 1), /'params\.b' must be a list of 1, not Float32Array/],
    'call: the length of a list': [
      (exe) => exe.call({ w: W, b: [B, B] }, X, 1),
      /'params\.b' must be a list of 1, got 2/,
    ],
    'call: a structure for a leaf': [
      (exe) => exe.call({ w: [W], b: [B] }, X, 1),
      /'params\.w' \(f32\[3,2\]\) must be one array, not a structure of several/,
    ],
    'call: out': [
      (exe) => exe.call(params, X, 1, { out: [] }),
      /call gives what the function returns, without \{out\}: use run/,
    ],
  });
  const z = (exe) => exe.run(X, 1).then?.(([, , y]) => [...y]) ?? [...exe.run(X, 1)[2]];
  const twice = Y.map((y, i) => 2 * y - [1, -1][i % 2]); // x @ 2w + b
  await using('weights.wasm', async function setsAndGives(exe) {
    await exe.set('params', params);
    equal(await z(exe), Y);
    const kept = await exe.get('params');
    equal([Object.keys(kept), [...kept.b[0]]], [['b', 'w'], [...B]]);
    await exe.set('params', { ...kept, w: kept.w.map((w) => 2 * w) });
    equal(await z(exe), twice);
    await exe.set('params.w', W);
    equal(await z(exe), Y);
    equal([...(await exe.call(X, 1)).y], Y);
    equal([...(await exe.call({ x: X, scale: 1 })).y], Y);
    for (const bad of [
      { w: W.map((w) => 3 * w), b: [X] },
      { w: X, b: [B] },
      { w: W },
      { w: W, b: [B, B] },
      { w: W, b: B },
      W,
    ]) {
      await rejects((async () => exe.set('params', bad))(), 'ArgumentError', /params/);
      equal(await z(exe), Y);
    }
  });
  await using('weights.wasm', async function messagesOfWeights(exe) {
    const cases = {
      'a leaf is missing': [
        () => exe.set('params', { w: W }),
        /'params\.b\.0' \(f32\[2\]\) is missing in what 'params' is set to/,
      ],
      'a key too many': [() => exe.set('params', { ...params, c: B }), /has no weight or state called 'params\.c'/],
      'an array': [() => exe.set('params', W), /'params' stands for params\.b\.0, params\.w/],
      'the shape': [() => exe.set('params', { w: W, b: [X] }), /weight 'params\.b\.0' must be f32\[2\]/],
      'no such name': [
        () => exe.set('parms', params),
        /no weight or state called 'parms' \(known: params\.b\.0, params\.w\)/,
      ],
      'not set': [() => exe.get('params'), /weight 'params\.b\.0' has not been set/],
    };
    for (const [name, [work, message]] of Object.entries(cases))
      await test(name, () => rejects((async () => work())(), 'ArgumentError', message));
    await exe.set('params', params);
    await rejects(
      (async () => exe.run({ params, x: X, scale: 1 }))(),
      'ArgumentError',
      /'params\.w' is a weight of 'jit_f', which stays in the module: exe\.set\('params\.w', \.\.\.\) sets it/,
    );
    await rejects(
      (async () => exe.call({ params, x: X, scale: 1 }))(),
      'ArgumentError',
      /takes \(x, scale\): there is no 'params'/,
    );
  });
  await using('part.wasm', async function aPartOfAnArgumentStays(exe) {
    await exe.set('params.w', W);
    for (const given of [{ b: [B] }, { b: [B], w: null }, { b: [B], w: undefined }])
      equal([...(await exe.call(given, X, 1)).y], Y);
    equal([...(await exe.run({ b: [B] }, X, 1))[2]], Y);
    await rejects(
      (async () => exe.call(params, X, 1))(),
      'ArgumentError',
      /'params\.w' \(f32\[3,2\]\) is a weight, which stays in the module: .* give null here/,
    );
    await rejects(
      (async () => exe.set('params', params))(),
      'ArgumentError',
      /'params\.b\.0' is an input of 'jit_f', and no weight or state: give it to run/,
    );
  });
  await using('states.wasm', async function statesAreNull(exe) {
    await exe.set('s', params);
    equal([await exe.call(1), await exe.run(1)], [null, []]);
    equal([...(await exe.get('s')).w], [...W.map((w) => w + 2)]);
  });
  await using('options.wasm', async function argumentsThatAreCalledAsOptions(exe) {
    // Of two arguments that are objects the last one has an array called "out"; of the first one so has another.
    equal([...(await exe.call({ out: X }, { out: B, signal: B }))], [2, -2, ...X]);
    equal([...(await exe.run({ out: X }, { out: B, signal: B }))[0]], [2, -2, ...X]);
    equal([...(await exe.run({ a: { out: X }, b: { out: B, signal: B } }))[0]], [2, -2, ...X]);
    equal(
      [
        ...((await exe.run({ out: X }, { out: B, signal: B }, { named: true }).then?.((all) => all.result)) ??
          exe.run({ out: X }, { out: B, signal: B }, { named: true }).result),
      ],
      [2, -2, ...X],
    );
  });
  await using('names.wasm', async function namesAloneDo(exe) {
    for (const [y] of [
      await exe.run({ w: 2, b: 1 }, 3),
      await exe.run({ p: { w: 2, b: 1 }, x: 3 }),
      await exe.run({ x: 3, 'p.w': 2, p: { b: 1 } }),
    ])
      equal([...y], [7]);
    await rejects(
      (async () => exe.call({ w: 2, b: 1 }, 3))(),
      'ArgumentError',
      /^'m' describes no structure: use run$/,
    );
  });
  await using('plain.wasm', async function neitherNamesNorStructure(exe) {
    await rejects((async () => exe.call(3))(), 'ArgumentError', /^'p' describes no structure: use run$/);
    await rejects((async () => exe.callAsync(3))(), 'ArgumentError', /^'p' describes no structure: use run$/);
    await rejects((async () => exe.run())(), 'ArgumentError', /^'p' takes 1 argument \(x: f32\[\]\), got 0$/);
    equal([...(await exe.run({ x: 3 }, { named: true })).result], [6]);
  });
  if (where === 'here') {
    await using('views.wasm', async function viewsAreCopied(exe) {
      // Packing a weight writes where results lie.
      exe.set('p', { a: W, b: W });
      exe.run(1);
      const seen = exe.output('result');
      const before = seen.slice();
      exe.set('p', { a: new Float32Array(6).fill(7), b: seen });
      equal([...exe.get('p.b')], [...before]);
    });
    await using('f.wasm', async function intoArraysOfTheCaller(exe) {
      const out = [new Float32Array(1), new Float32Array(1), new Float32Array(6)];
      const got = exe.run({ params, x: X, scale: 1 }, { out });
      equal([got === out, [...out[2]]], [true, Y]);
      equal(exe.run(params, X, 1, { out, named: true }).y === out[2], true);
    });
    for (const [name, message] of [
      ['lies-names', /structure\.names: expected a list of names, each once/],
      ['lies-keys', /structure\.arguments: two children have one key/],
      ['lies-leaves', /structure\.results: its leaves are not the numbers from 0 to 2/],
      ['lies-depth', /structure\.arguments: a tree is deeper than 64/],
      ['lies-all', /at structure: expected an object/],
      ['lies-kind', /structure\.arguments: expected a number, null, or a list/],
      ['lies-positional', /structure\.positional: expected an integer from 0 to 3/],
    ]) {
      for (const worker of [false, true])
        await test(`${name}, ${worker}`, () =>
          rejects(load(`${base}/${name}.wasm`, { worker }), 'ArtifactError', message));
    }
  }
  return wrong;
}

/** Structures for a program on devices, each of which has a part of what the function takes. */
export async function divided({ load }, base) {
  const { wrong, test, equal, rejects } = checks();
  await test('divided', async () => {
    const group = await load(`${base}/divided.wasm`, { devices: 2 });
    try {
      const tree = { x: Float32Array.of(1, 2, 3, 4), more: [Float32Array.of(10, 20)] };
      const got = await group.call(tree);
      equal([[...got.double.x], [...got.double.more[0]], [...got.sum]], [[2, 4, 6, 8], [20, 40], [10]]);
      equal([...(await group.runGlobal({ tree }, { named: true })).sum], [10]);
      equal([...(await group.runGlobal([tree]))[2]], [10]);
      await rejects(group.call({ x: tree.x }), 'ArgumentError', /'tree\.more' is missing/);
      await rejects(
        group.runGlobal([{ x: tree.x }]),
        'ArgumentError',
        /^runGlobal: .* the argument 'tree\.more\.0' \(f32\[1\]\) is missing/,
      );
      await rejects(
        group.runReplicated([[tree], [{ x: 1, y: 2 }]]),
        'ArgumentError',
        /^device 0: |^device 1: .* no argument called 'tree\.y'/,
      );
    } finally {
      group.dispose();
    }
  });
  await test('weights of devices', async () => {
    const group = await load(`${base}/weights.wasm`, { devices: 2 });
    try {
      await group.set('params', params);
      await group.set('params', { w: W.map((w) => 2 * w), b: [B] }, 1);
      const [[, , first], [, , second]] = await group.runReplicated([[X, 1], { x: X, scale: 1 }]);
      equal([[...first], [...second]], [Y, Y.map((y, i) => 2 * y - [1, -1][i % 2])]);
      const kept = await group.get('params', 1);
      equal(
        [Object.keys(kept), [...kept.w]],
        [
          ['b', 'w'],
          [0, 2, 4, 6, 8, 10],
        ],
      );
      await rejects(group.set('params', { w: W }), 'ArgumentError', /'params\.b\.0' \(f32\[2\]\) is missing/);
      await rejects(group.set('params', { w: W, b: [X] }), 'ArgumentError', /weight 'params\.b\.0' must be/);
      await rejects(group.call(X, 1), 'ArgumentError', /does not say which part of a global array/);
    } finally {
      group.dispose();
    }
  });
  return wrong;
}
