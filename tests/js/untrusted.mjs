// Modules loaded with `untrusted: true`, in Node and in pages: tests/web/test_untrusted_js.py makes and serves them.

import { makeMailboxes } from '../../web/devices/shared_memory.js';
import { limited } from '../../web/limits/untrusted.js';
import { checks, halt, patient, spied } from './devices.mjs';

const X = Float32Array.of(1, 2, 3);

/** Modules that are refused, from wherever they come; how many of them the engine itself would take. */
export async function refused({ load }, base, cases) {
  const { wrong, test, rejects } = checks();
  const { workers, release } = spied();
  let valid = 0;
  for (const { path, kind, message, options, sources: chosen, isDivided } of cases) {
    const address = base + path;
    const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
    if (WebAssembly.validate(bytes)) valid++;
    const sources = { address: () => address, bytes: () => bytes, response: () => fetch(address) };
    for (const from of chosen) {
      await test(`${path} from ${from}`, () =>
        rejects(load(sources[from](), { untrusted: true, ...options }), kind, new RegExp(message)));
    }
    if (isDivided)
      await test(`${path} on devices`, () =>
        rejects(load(address, { untrusted: true, devices: 2, ...options }), kind, new RegExp(message)));
  }
  for (let i = 0; i < 100 && workers.some((worker) => worker.isAlive()); i++) await halt(50);
  if (workers.some((worker) => worker.isAlive())) wrong.push('a worker is left');
  release();
  return { wrong, valid };
}

/** What the option goes with. */
export async function options({ load }, base) {
  const { wrong, test, equal, rejects } = checks();
  const good = `${base}/good.wasm`;
  const untrusted = true;
  const double = async (source, more) => {
    const exe = await load(source, { untrusted, ...more });
    equal((await exe.run(X))[0][1], 4);
    exe.dispose();
  };
  const bytes = await (await fetch(good)).arrayBuffer();
  await test('an address', () => double(good));
  await test('bytes', () => double(bytes));
  await test('a view', () => double(new Uint8Array(bytes)));
  await test('a response', () => double(fetch(good)));
  await test('a worker', () => double(good, { worker: true }));
  await test('the build that needs less', () => double({ simd128: good, 'relaxed-simd': `${base}/relaxed.wasm` }));
  await test('limits', () => double(good, { memoryLimit: 65536, timeout: 5 }));
  await test('devices', async () => {
    for (const transport of ['shared', 'messages']) {
      const exe = await load(good, { untrusted, devices: 2, transport });
      equal(
        (await exe.runReplicated([[X], [X]])).map(([y]) => y[1]),
        [4, 4],
      );
      exe.dispose();
    }
  });
  await test('as many results as there may be', async () => {
    const exe = await load(`${base}/fits.wasm`, { untrusted, memoryLimit: 1 << 20 });
    equal((await exe.run(X)).length, 32);
    exe.dispose();
  });
  await test('false', async () => {
    const exe = await load(good, { untrusted: false });
    equal(exe.run(X)[0][1], 4);
  });
  const bad = {
    'another value': [good, { untrusted: 'yes' }, /untrusted is true or false, not yes/],
    'no worker': [good, { untrusted, worker: false }, /untrusted: true loads into a worker/],
    'no memory': [good, { untrusted, memoryLimit: 0 }, /memoryLimit is in bytes, above 0; got 0/],
    'a memory of no number': [good, { untrusted, memoryLimit: '1e9' }, /memoryLimit is in bytes/],
    'no time': [good, { untrusted, timeout: 0 }, /timeout is in seconds, above 0/],
    'a compiled module': [
      await WebAssembly.compile(bytes),
      { untrusted },
      /takes the address or the bytes of a module/,
    ],
    'a compiled module on devices': [
      await WebAssembly.compile(bytes),
      { untrusted, devices: 2 },
      /takes the address or the bytes of a module/,
    ],
  };
  for (const [name, [source, more, message]] of Object.entries(bad))
    await test(name, () => rejects(load(source, more), 'ArgumentError', message));
  await test('a limit that is no number', () =>
    rejects(load(good, { memoryLimit: NaN }), 'LimitError', /the limit is NaN/));
  return wrong;
}

/** That the limits hold. */
export async function limits({ load }, base) {
  const { wrong, test, equal, rejects } = checks();
  const untrusted = true;
  await test('time', async () => {
    const exe = await patient(load)(`${base}/loops.wasm`, { untrusted, timeout: 0.5 });
    await rejects(exe.run(X), 'LimitError', /took longer than the 0.5 s/);
  });
  await test('time on devices', async () => {
    const exe = await patient(load)(`${base}/loops.wasm`, { untrusted, timeout: 0.5, devices: 2 });
    await rejects(exe.runReplicated([[X], [X]]), 'LimitError', /took longer than the 0.5 s/);
    exe.dispose();
  });
  await test('limits that nobody gave', () => {
    const [, given] = limited('x.wasm', { untrusted });
    equal(given, { untrusted, worker: true, memoryLimit: 2 ** 30, timeout: 10 });
  });
  await test('memory of all devices', async () => {
    await (await load(`${base}/good.wasm`, { devices: 2, memoryLimit: 131072 })).dispose();
    await rejects(
      load(`${base}/good.wasm`, { devices: 2, memoryLimit: 131071 }),
      'LimitError',
      /needs 131072 bytes of memory, the limit is 131071/,
    );
    await rejects(
      load(`${base}/good.wasm`, { untrusted, devices: 2, memoryLimit: 131071 }),
      'LimitError',
      /needs 131072 bytes of memory/,
    );
  });
  await test('memory that devices share', async () => {
    const group = { untrusted, devices: 2, memoryLimit: 131072 };
    await rejects(
      load(`${base}/good.wasm`, { ...group, transport: 'shared' }),
      'LimitError',
      /no room for the memory that 2 devices share: .*the limit is 131072/,
    );
    const exe = await load(`${base}/good.wasm`, group);
    equal(exe.transport, 'messages');
    exe.dispose();
    const huge = new Promise(() => makeMailboxes(65536, [], 2 ** 40));
    await rejects(huge, 'RangeError', /it would take \d{13} bytes, the limit is 1099511627776/);
  });
  return wrong;
}
