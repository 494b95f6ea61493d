// Programs on several devices, in Node and in pages: what they give, how they fail, and what is left over afterwards.

import { checks, fetched, halt, script, spied } from './devices.mjs';

const hash = async (array) =>
  Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', array)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');

/** SHA-256 of every result of every device (or of the whole arrays), for each case; two runs have to give the same. */
export async function digests({ load }, base, { cases, transport, threads }) {
  const found = [];
  for (const { name, devices, isGlobal } of cases) {
    const group = await load(`${base}/${name}.wasm`, { devices, transport, threads, timeout: 60 });
    const given = await fetched(`${base}/${name}.json`, group.parameters);
    const run = async () => (isGlobal ? [await group.runGlobal(given[0])] : group.runReplicated(given));
    const runs = [await run(), await run()];
    found.push(
      group.transport === transport
        ? await Promise.all(runs.map((lists) => Promise.all(lists.map((results) => Promise.all(results.map(hash))))))
        : `by ${group.transport}`,
    );
    group.dispose();
  }
  return found;
}

/** What users do and get wrong; gives what was not as it should be. */
export async function behaviours({ load, transfer }, base, transport) {
  const { wrong, test, equal, rejects } = checks();
  const options = { devices: 2, transport, timeout: 20 };
  const using = async (file, more, use) => {
    const group = await load(base + file, { ...options, ...more });
    try {
      await use(group);
    } finally {
      group.dispose();
    }
  };
  const x = (d) => Float32Array.of(1, 2, 3, 10 * d);
  const sum = [2, 4, 6, 10];

  await test('counts', async () => {
    await using('/free.wasm', { devices: { replicas: 3 } }, async (group) => {
      equal([group.devices.replicas, group.devices.partitions, group.devices.count], [3, 1, 3]);
      equal(
        (await group.runReplicated([0, 1, 2].map((d) => [x(d)]))).map(([y]) => [...y]),
        [0, 1, 2].map(() => [3, 6, 9, 30]),
      );
    });
    await using('/free.wasm', { devices: 1 }, async (group) =>
      equal([...(await group.runReplicated([[x(1)]]))[0][0]], [1, 2, 3, 10]),
    );
    for (const devices of [0, -1, 1.5, '2', null, {}, { replicas: 0 }, { workers: 2 }, [2]])
      await rejects(load(base + '/free.wasm', { devices }), 'ArgumentError', /devices is how many/);
    await rejects(
      load(base + '/fixed.wasm', { devices: 3 }),
      'ArgumentError',
      /runs on 2 devices \(2 replicas x 1 partition\), got 3/,
    );
    await rejects(
      load(base + '/fixed.wasm', { devices: { replicas: 4 } }),
      'ArgumentError',
      /is compiled for 2 replicas, got 4/,
    );
    await rejects(load(base + '/free.wasm', { devices: 65 }), 'ArgumentError', /runs on 1 to 64 devices, got 65/);
    await rejects(
      load(base + '/free.wasm', { ...options, transport: 'pigeons' }),
      'ArgumentError',
      /'auto', 'shared' or 'messages'/,
    );
    for (const timeout of [0, -1, '3', NaN])
      await rejects(load(base + '/free.wasm', { ...options, timeout }), 'ArgumentError', /timeout is in seconds/);
    await rejects(load(base + '/nowhere.wasm', options), 'ArtifactError', /404/);
  });

  await test('one device without a group', async () => {
    const alone = await load(base + '/free.wasm');
    equal([...alone.run(x(1))[0]], [1, 2, 3, 10]);
    equal([...(await alone.runAsync(x(1)))[0]], [1, 2, 3, 10]);
    const fixed = await load(base + '/fixed.wasm');
    for (const run of [async () => fixed.run(x(0)), () => fixed.runAsync(x(0)), async () => fixed.profile(x(0))])
      await rejects(run(), 'ArgumentError', /runs on 2 devices.*\{devices: \.\.\.\}.*runReplicated/);
    const remote = await load(base + '/free.wasm', { worker: true });
    equal([...(await remote.run(x(1)))[0]], [1, 2, 3, 10]);
    remote.dispose();
  });

  await test('arguments and results', async () => {
    await using('/free.wasm', { named: true }, async (group) => {
      const results = await group.runReplicated([{ x: x(0) }, [[1, 2, 3, 10]]]);
      equal(
        results.map(({ result }) => [...result]),
        [sum, sum],
      );
      const given = transfer(x(1));
      await group.runReplicated([[x(0)], [given]]);
      equal(given.length, 0);
      for (const lists of [undefined, [], [[x(0)]], [[x(0)], [x(1)], [x(2)]]])
        await rejects(group.runReplicated(lists), 'ArgumentError', /each of 2 devices/);
      await rejects(
        group.runReplicated([[x(0)], []]),
        'ArgumentError',
        /^device 1: 'm' takes 1 argument \(x: f32\[4\]\).*got 0/,
      );
      await rejects(group.runReplicated([x(0), x(1)]), 'ArgumentError', /^device 0: 'm' takes 1 argument /);
      await rejects(
        group.runReplicated([[x(0)], [new Float32Array(3)]]),
        'ArgumentError',
        /^device 1: argument 0 \('x'\) must be f32\[4\]/,
      );
      await rejects(
        group.runReplicated([[x(0)], { z: x(1) }]),
        'ArgumentError',
        /device 1: 'm' has no argument called 'z'/,
      );
      await rejects(
        group.runReplicated([[x(0)], [x(1)]], { infeed: [[], []] }),
        'ArgumentError',
        /^device \d: 'm' was given infeed/,
      );
      await rejects(group.runReplicated([[x(0)], [x(1)]], { sing: 1 }), 'ArgumentError', /not 'sing'/);
      await rejects(group.runGlobal([x(0)]), 'ArgumentError', /does not say which part of a global array/);
      equal(
        (await group.runReplicated([[x(0)], [x(1)]])).map(({ result }) => [...result]),
        [sum, sum],
      );
    });
  });

  await test('calls are served one after another', () =>
    using('/free.wasm', {}, async (group) => {
      const runs = Array.from({ length: 20 }, (_, i) => group.runReplicated([[x(0)], [x(i)]]));
      equal(
        (await Promise.all(runs)).map(([[y]]) => y[3]),
        runs.map((_, i) => 10 * i),
      );
    }));

  await test('sources', async () => {
    const bytes = await (await fetch(base + '/free.wasm')).arrayBuffer();
    for (const source of [
      fetch(base + '/free.wasm'),
      await fetch(base + '/free.wasm'),
      bytes,
      new Uint8Array(bytes),
      await WebAssembly.compile(bytes),
      { simd128: base + '/free.wasm' },
    ]) {
      const group = await load(source, options);
      equal([...(await group.runReplicated([[x(0)], [x(1)]]))[1][0]], sum);
      group.dispose();
    }
  });

  await test('weights and states', () =>
    using('/held.wasm', {}, async (group) => {
      const run = async () => (await group.runReplicated([[], []])).map(([y]) => [...y]);
      await rejects(run(), 'ArgumentError', /^device \d: weight 'w' has not been set/);
      await group.set('w', [1, 2]);
      await group.set('s', Float32Array.of(0, 0));
      equal(await run(), [
        [2, 4],
        [2, 4],
      ]);
      equal(await run(), [
        [4, 8],
        [4, 8],
      ]);
      await group.set('w', [10, 20], 1);
      equal([...(await group.get('w'))], [1, 2]);
      equal([...(await group.get('w', 1))], [10, 20]);
      equal(await run(), [
        [15, 30],
        [15, 30],
      ]);
      await group.set('s', [100, 0], 0);
      equal(
        [[...(await group.get('s', 0))], [...(await group.get('s', 1))]],
        [
          [100, 0],
          [15, 30],
        ],
      );
      equal(await run(), [
        [111, 22],
        [26, 52],
      ]);
      for (const bad of [() => group.set('q', 1), () => group.get('q')])
        await rejects(bad(), 'ArgumentError', /no weight or state called 'q' \(known: w, s\)/);
      for (const bad of [() => group.set('w', [1, 2], 2), () => group.get('w', -1)])
        await rejects(bad(), 'ArgumentError', /runs on devices 0 to 1/);
      await rejects(group.set('w', [1, 2, 3]), 'ArgumentError', /weight 'w' must be f32\[2\]/);
    }));

  await test('weights from a file', async () => {
    const seen = [];
    await using('/sidecar.wasm', { onProgress: (progress) => seen.push(progress) }, async (group) => {
      const [[y], [z]] = await group.runReplicated([[x(0)], [x(1)]]);
      equal(y.length === 4 && [...y].every((v, i) => v === z[i] && v === sum[i] + 2 * i), true);
    });
    equal([seen[0].phase, seen.at(-1).phase], ['module', 'ready']);
    equal(seen.at(-1).total > 0 && seen.at(-1).loaded === seen.at(-1).total, true);
    await rejects(
      load(base + '/sidecar.wasm', { ...options, weights: base + '/other.weights' }),
      'ArtifactError',
      /are not those|must have|cut short/,
    );
    const bytes = await (await fetch(base + '/sidecar.weights')).arrayBuffer();
    await using('/sidecar.wasm', { weights: bytes }, async (group) =>
      equal((await group.runReplicated([[x(0)], [x(1)]]))[0][0][3], sum[3] + 6),
    );
  });

  await test('many sends before the first receipt', async () => {
    for (const size of [4, 4096]) {
      await using(`/sends${size}.wasm`, { devices: { partitions: 2 } }, async (group) => {
        const [[none], [all]] = await group.runReplicated([0, 1].map((d) => [new Float32Array(size).fill(100 * d)]));
        equal(
          [[...none], [...all]],
          [all.map(() => 0), all.map((_, i) => i)].map((list) => [...list]),
        );
      });
    }
  });

  await test('a program that nobody has divided', () =>
    using('/undivided.wasm', { devices: 1 }, async (group) => {
      equal(
        (await group.runReplicated([[x(1)]])).map(([y]) => [...y]),
        [[2, 4, 6, 20]],
      );
      await rejects(group.runGlobal([x(1)]), 'UnsupportedError', /runs on one device: .*what to do/i);
    }));

  await test('numbers of devices that a program on global arrays is not for', async () => {
    await rejects(
      using('/undivided.wasm', { devices: 2 }, () => undefined),
      'UnsupportedError',
      /^'m' runs on one device: /,
    );
    await rejects(
      using('/copies.wasm', { devices: 2 }, () => undefined),
      'ArgumentError',
      /^'jit_numbered' runs on 4 devices, got 2: choose such a number of devices$/,
    );
  });

  await test('of copies the first one counts', () =>
    using('/copies.wasm', { devices: 4 }, async (group) =>
      equal([...(await group.runGlobal([Float32Array.of(1, 2, 3, 4)]))[0]], [1, 2, 3, 4]),
    ));

  await test('global arrays', () =>
    using('/global.wasm', {}, async (group) => {
      const given = Float32Array.from({ length: 24 }, (_, i) => i);
      const [doubled, total] = await group.runGlobal([given]);
      equal(
        [...doubled],
        [...given].map((v) => 2 * v),
      );
      equal([...total], [276]);
      await rejects(group.runGlobal([new Float32Array(12)]), 'ArgumentError', /must be f32\[4,6\]/);
      await rejects(group.runGlobal([given, given]), 'ArgumentError', /takes 1 argument /);
    }));

  await test('functions of the page', async () => {
    const seen = [];
    const tick = async (i, d, { name, device }) => {
      seen.push([i[0], d[0], device, typeof name]);
      return i;
    };
    await using('/called.wasm', { customCalls: { tick } }, async (group) => {
      const [[y]] = await group.runReplicated([0, 1].map((d) => [2, x(d)]));
      equal([...y], [1, 2, 3, 5]);
      equal(seen.sort().join(' '), '0,0,0,string 0,1,1,string 1,0,0,string 1,1,1,string');
    });
    let isWrong = true;
    const failing = (i, d, { device }) => {
      if (device === 1 && isWrong) throw new Error('no');
      return i;
    };
    await using('/called.wasm', { customCalls: { tick: failing } }, async (group) => {
      await rejects(group.runReplicated([0, 1].map((d) => [2, x(d)])), 'RunError', /^device 1: custom call 'tick'.*no/);
      isWrong = false;
      equal([...(await group.runReplicated([0, 1].map((d) => [2, x(d)])))[0][0]], [1, 2, 3, 5]);
    });
    await rejects(load(base + '/called.wasm', options), 'ArgumentError', /calls 'tick'/);
  });

  await test('onlookers', async () => {
    const seen = [];
    await using('/free.wasm', { onExchange: (event) => seen.push(event) }, async (group) => {
      await group.runReplicated([[x(0)], [x(1)]]);
      equal(new Set(seen.map(({ device }) => device)).size, 2);
      const { name, opcode, to, from, bytes, milliseconds } = seen[0];
      equal(
        [name, opcode, bytes, milliseconds >= 0, to.every(Number.isInteger), from.length > 0],
        ['y', 'all-reduce', 16, true, true, true],
      );
    });
  });

  await test('a signal', async () => {
    const { signal } = new AbortController();
    await using('/scripted.wasm', { signal }, async (group) => {
      const control = new AbortController();
      const run = group.runReplicated([script('a.'), script('~')], { signal: control.signal });
      setTimeout(() => control.abort(new Error('enough')), 50);
      await rejects(run, 'Error', /enough/);
      await rejects(
        group.runReplicated([script('a.'), script('a.')], { signal: AbortSignal.abort(new Error('never')) }),
        'Error',
        /never/,
      );
    });
    await rejects(load(base + '/free.wasm', { ...options, signal: AbortSignal.abort(new Error('no')) }), 'Error', /no/);
  });

  await test('after dispose', async () => {
    const group = await load(base + '/scripted.wasm', options);
    const run = group.runReplicated([script('a.'), script('~')]);
    const later = group.runReplicated([script('.'), script('.')]);
    setTimeout(() => group.dispose(), 50);
    for (const one of [
      run,
      later,
      run.catch(() => group.runReplicated([script('.'), script('.')])),
      run.catch(() => group.get('x')),
    ])
      await rejects(one, /RunError|ArgumentError/, /disposed|no weight/);
  });

  return wrong;
}

/** What goes wrong on one device ends the run on all, with the right error; the next run works. */
export async function failures({ load }, base, transport) {
  const { wrong, test, equal, rejects } = checks();
  const works = async (group) => {
    const { count } = group.devices;
    const results = await group.runReplicated(
      Array.from({ length: count }, (_, d) => script('ag.', { x: 100 * d, devices: count })),
    );
    results.forEach(([y, z], d) => {
      for (let i = 0; i < count; i++)
        equal([y[i], z[4096 * i], z[4096 * i + 4095]], [100 * i + d, 100 * i, 100 * i + 4095]);
    });
  };
  const scripts = async (name, lists, kind, message, { timeout = 20, devices = lists.length } = {}) =>
    test(name, async () => {
      const group = await load(base + '/scripted.wasm', { devices, transport, timeout });
      try {
        await works(group);
        const begin = performance.now();
        const given = lists.map((one, d) => (typeof one === 'string' ? script(one, { devices, x: 100 * d }) : one));
        if (kind) await rejects(group.runReplicated(given), kind, message);
        else await message(await group.runReplicated(given));
        const passed = performance.now() - begin;
        if (passed > 1000 * timeout + 5000) throw new Error(`it took ${passed} ms`);
        await works(group);
        await works(group);
      } finally {
        group.dispose();
      }
    });
  const other = /device 0 \(replica 0, partition 0\) waited [\d.e-]+ s in all-to-all 'a' for device 1, which /;
  const saying = (text) => new RegExp(other.source + text);

  // Beside the others. Both must be waiting when the time is up, on a machine that others use as well.
  const waiting = scripts(
    'one waits elsewhere',
    ['a.', 'g.'],
    'ExchangeError',
    /device [01] \(.*\) waited 8 s in all-\S+ '[ag]' for device [01], which waits in all-\S+ '[ag]' for device [01]$/,
    { timeout: 8 },
  );
  await scripts('a trap', ['a.', '!'], 'RunError', /^device 1: 'scripted' failed in step 0 of 1, script: /);
  await scripts(
    'a trap among four, late',
    ['aaga.', 'aaga.', 'aag!', 'aaga.'],
    'RunError',
    /^device 2: 'scripted' failed/,
  );
  await scripts('one ends its run', ['a.', '.'], 'ExchangeError', saying('ended its run'));
  await scripts('one never comes', ['a.', '~'], 'ExchangeError', saying('never arrived'), { timeout: 4 });
  await scripts(
    'a device that there is not',
    ['a.', script('a.', { to: [0, 7] })],
    'ArtifactError',
    /^device 1: all-to-all 'a' names device 7, and there are 2/,
  );
  await scripts('a device below none', ['a.', script('a.', { from: [-2] })], 'ArtifactError', /names device -2/);
  await scripts(
    'blocks that do not fit',
    [script('w.', { to: [1], from: [1] }), script('g.', { to: [0], from: [0] })],
    /ExchangeError|ArtifactError/,
    /device 0/,
    { timeout: 2 },
  );
  await scripts(
    'blocks of another size on one channel',
    [script('w.', { to: [], from: [1] }), script('s.', { to: [0], from: [] })],
    'ArtifactError',
    /^device 0: collective-permute 'w' gets blocks of 16384 bytes where it has room for 8/,
  );
  await scripts(
    'a receive that nobody sends to',
    [script('r.', { from: [0] }), '.'],
    'ExchangeError',
    /device 0 \(.*\) waited 0 s in recv 'r' for device 0/,
    { devices: 2 },
  );

  // Sends are over at once, so that they may come long before they are received, in any order, and more than any outbox
  // holds.
  const many = 40;
  await scripts(
    'sends before receives',
    [
      script('s'.repeat(many) + 't'.repeat(many) + 'u.', { to: [1], from: [1] }),
      script('t' + 'u'.repeat(many) + 'r'.repeat(many) + '.', { to: [0], from: [0], x: 7 }),
    ],
    undefined,
    async (results) => {
      equal([results[0][2][0], results[1][1][5], results[1][2][5]], [7, 5, 5]);
    },
  );
  await scripts(
    'crossing sends, then a collective',
    ['ssttgur.', 'ssttgur.'].map((text, d) => script(text, { to: [1 - d], from: [1 - d], x: 50 * d })),
    undefined,
    async (results) => {
      equal(
        results.map(([, z, v]) => [z[0], v[0]]),
        [
          [50, 50],
          [0, 0],
        ],
      );
    },
  );
  await scripts('a send to oneself', [script('stur.', { to: [0], from: [0], x: 3 }), '.'], undefined, async (results) =>
    equal([results[0][1][0], results[0][2][0]], [3, 3]),
  );
  await scripts('a send that nobody takes', [script('sss.', { to: [1] }), '.'], undefined, async () => {});
  await scripts(
    'nobody to send to, none to receive from',
    [script('ag.', { to: [], from: [] }), script('ag.', { to: [], from: [] })],
    undefined,
    async () => {},
  );

  await test('a worker that does not start', async () => {
    await rejects(
      load(base + '/free.wasm', { devices: 2, transport, timeout: 20, worker: `${base}/js/nowhere.mjs` }),
      'ArtifactError',
      /worker failed/,
    );
    await rejects(
      load(base + '/free.wasm', {
        devices: 2,
        transport,
        timeout: 2,
        worker: new URL('./silent.mjs', import.meta.url),
      }),
      'LimitError',
      /load took longer than the 2 s that the option timeout allows/,
    );
  });

  await test('a device with another program', async () => {
    await rejects(
      load(base + '/free.wasm', { devices: 2, transport, timeout: 20, worker: new URL('./liar.mjs', import.meta.url) }),
      'ExchangeError',
      /device \d \(.*\) runs another program than the rest/,
    );
  });

  await waiting;
  return wrong;
}

/**
 * Ends a worker in the middle of a run, many times, in several groups at once; gives what was wrong, and what errors
 * there were.
 */
export async function terminations({ load }, base, { transport, times, devices, groups }) {
  const { wrong, test, equal } = checks();
  const { workers, release } = spied();
  const errors = {};
  const lists = (trips) => Array.from({ length: devices }, (_, d) => [trips, Float32Array.of(d, 1, 2, 3)]);
  const started = [];
  for (let i = 0; i < groups; i++) {
    const worker = new URL(`../../web/worker.js?group=${i}`, import.meta.url);
    started.push(await load(`${base}/loop${devices}.wasm`, { devices, transport, timeout: 20, worker }));
  }
  const expected = [...(await started[0].runReplicated(lists(2)))[0][0]];
  const alive = () => workers.filter((worker) => worker.isAlive()).length;
  const inGroup = async (group, number) => {
    for (let i = number; i < times && !wrong.length; i += groups) {
      await test(`time ${i}`, async () => {
        // It goes on as long as nobody ends it.
        const run = group.runReplicated(lists(2 ** 30)).then(
          () => new Error('the run ended well'),
          (reason) => reason,
        );
        await halt((i * 7) % 23);
        const begin = performance.now();
        const victim = i % devices;
        await workers
          .find((worker) => worker.isAlive() && worker.device === victim && worker.address.endsWith(`group=${number}`))
          .terminate();
        const error = await run;
        const passed = performance.now() - begin;
        const text = `${error.name}: ${error.message}`;
        const named = new RegExp(
          `device ${victim}, which never arrived: its worker has ended|^ExchangeError: device ${victim} \\(replica ` +
            `${victim}, partition 0\\) did not come to the end of its run: its worker has ended$`,
        );
        const waited =
          /^ExchangeError: device \d \(replica \d, partition 0\) (waited \S+ s in \S+ '[sy]' for |did not come)/;
        if (!waited.test(text) || !named.test(text)) throw new Error(text);
        if (passed > 20000) throw new Error(`it took ${passed} ms`);
        errors[text.replace(/[\d.e-]+ s /, '').replace(/\d/g, 'N')] = true;
        for (const [y] of await group.runReplicated(lists(2))) equal([...y], expected);
      });
    }
    group.dispose();
  };
  await Promise.all(started.map(inGroup));
  for (let i = 0; i < 100 && alive(); i++) await halt(50);
  await test('the end', () => equal([alive(), workers.length], [0, groups * devices + times]));
  release();
  return { wrong, errors: Object.keys(errors) };
}

/** A first run, after which an engine has all the threads of its own. */
export async function warm({ load }, base) {
  const group = await load(base + '/free.wasm', { devices: 2 });
  await group.runReplicated([[new Float32Array(4)], [new Float32Array(4)]]);
  group.dispose();
  await halt(200);
}

/** Manifests that are wrong about devices; gives those that are taken, or refused with another message. */
export async function lies({ load }, base) {
  const { wrong, test, rejects } = checks();
  for (const [i, { message, isWhole }] of (await (await fetch(base + '/lies.json')).json()).entries()) {
    const believe = async (options) => {
      const exe = await load(`${base}/lie${i}.wasm`, options);
      if (isWhole) await exe.runGlobal([]).finally(() => exe.dispose());
    };
    for (const options of isWhole ? [{ devices: 2 }] : [{}, { devices: 2 }])
      await test(`lie ${i}`, () => rejects(believe(options), 'ArtifactError', new RegExp(message)));
  }
  return wrong;
}

/** Where a page is not isolated: what transport it has, and the error of the other; then a run. */
export async function notIsolated({ load }, base) {
  const { wrong, test, equal, rejects } = checks();
  await test('messages take over', async () => {
    equal(globalThis.crossOriginIsolated, false);
    const group = await load(base + '/free.wasm', { devices: 3 });
    equal(group.transport, 'messages');
    const results = await group.runReplicated([1, 2, 3].map((d) => [new Float32Array(4).fill(d)]));
    equal(
      results.map(([y]) => [...y]),
      results.map(() => [6, 6, 6, 6]),
    );
    group.dispose();
    const message =
      /not cross-origin isolated: .*-Opener-Policy: same-origin and .*: require-corp.*transport: 'messages'/;
    await rejects(load(base + '/free.wasm', { devices: 3, transport: 'shared' }), 'UnsupportedError', message);
  });
  return wrong;
}
