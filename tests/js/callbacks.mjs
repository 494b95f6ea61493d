// Callbacks of JAX programs, in Node and in pages: tests/web/test_callbacks_js.py makes the programs.

import { line } from '../../web/requests/callbacks.js';
import { checks } from './devices.mjs';

const X = Float32Array.of(0, 1, 2);
const AGAINST = Float32Array.of(-1, -1, -2);

/** What goes to the console while something runs. */
async function printed(run) {
  const { log } = console;
  const lines = [];
  console.log = (...parts) => lines.push(parts.join(' '));
  try {
    await run();
  } finally {
    console.log = log;
  }
  return lines;
}

/** What a program prints, from an address: the lines of JAX. */
export async function prints({ load }, base, { wasm, args }) {
  const exe = await load(base + wasm);
  const given = args.map(({ type, values }) => new globalThis[type](values));
  return [await printed(() => exe.run(...given)), await printed(() => exe.runAsync(...given))];
}

/** Reached and not reached, with functions and without. */
export async function reached({ load, RunError }, base) {
  const { wrong, test, equal, rejects } = checks();
  const place = /reached callback 'pure_callback[^']*' \(jit\(guarded\)\/cond.*callbacks.*\.py:\d+\).*'callback 0'/;
  for (const worker of [false, true]) {
    await test(`nobody there, worker ${worker}`, async () => {
      const exe = await load(`${base}/guarded.wasm`, { worker });
      equal([...(await exe.run(X))[0]], [0, 2, 4]);
      await rejects((async () => exe.run(AGAINST))(), 'RunError', place);
      equal([...(await exe.run(X))[0]], [0, 2, 4]);
      exe.dispose?.();
    });
    await test(`a function, worker ${worker}`, async () => {
      const exe = await load(`${base}/guarded.wasm`, {
        worker,
        customCalls: { 'callback 0': (x) => x.map((v) => v + 10) },
      });
      equal([...(await exe.run(AGAINST))[0]], [9, 9, 8]);
      exe.dispose?.();
    });
  }
  await test('a trap', async () => {
    const exe = await load(`${base}/trap.wasm`, { customCalls: { 'callback 0': (x) => x } });
    equal([...exe.run(X)[0]], [0, 2, 4]);
    await rejects((async () => exe.run(AGAINST))(), 'RunError', /compiled to end/);
  });
  await test('sizes that do not fit together', async () => {
    const exe = await load(`${base}/sizes.wasm`);
    const [x, short, long] = [new Float32Array(12), new Float32Array(4), new Float32Array(5)];
    equal([...exe.run(x, short)[0].shape], [4, 3]);
    await rejects(
      (async () => exe.run(x, long))(),
      'ArgumentError',
      /args\[1\]\.shape\[0\] \(= 5\) and the specification 'b' \(= 4\)/,
    );
    equal([...exe.run(x, short)[0].shape], [4, 3]);
  });
  await test('a promise', async () => {
    const exe = await load(`${base}/guarded.wasm`, {
      customCalls: { 'callback 0': async (x) => x.map((v) => v + 10) },
    });
    equal([...(await exe.runAsync(AGAINST))[0]], [9, 9, 8]);
  });
  if (RunError === undefined) wrong.push('the loader exports no RunError');
  return wrong;
}

/** Lines of formats and arrays. */
export function lines(api, base, cases) {
  return cases.map(({ format, leaves, arrays }) =>
    line(
      format,
      leaves,
      arrays.map(
        ({ type, values }) => new globalThis[type](type.startsWith('Big') ? values.map(BigInt) : values.map(Number)),
      ),
    ),
  );
}
