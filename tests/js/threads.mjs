// Programs on several threads: see tests/web/test_threads_js.py.

import { kept } from './kept.mjs';

const same = (a, b) => {
  const [x, y] = [a, b].map((array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  return x.length === y.length && x.every((byte, i) => byte === y[i]);
};

/** Numbers that repeat from run to run. */
function numbers(count, seed) {
  let state = seed;
  return Float32Array.from({ length: count }, () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 30 - 1);
}

const given = (exe) =>
  exe.parameters.filter(({ kind }) => kind === 'input').map(({ bytes }, i) => numbers(bytes / 4, i + 1));

/** The workers that are told from now on to help. */
function recorded() {
  const workers = [];
  const holder = globalThis.Worker ? globalThis : process.getBuiltinModule('node:worker_threads');
  const Original = holder.Worker;
  holder.Worker = class extends Original {
    postMessage(message, ...rest) {
      if (message.module) workers.push(this);
      super.postMessage(message, ...rest);
    }
  };
  return { workers, restore: () => (holder.Worker = Original) };
}

/** Node's own threads begin with the first worker; none may be left after what follows. */
export async function warm({ load }, base) {
  const exe = await load(`${base}/product-threads.wasm`, { worker: true, threads: 2 });
  exe.dispose();
  await new Promise((resolve) => setTimeout(resolve, 500));
}

/** Every program with every number of threads, as often as `times`, against the artifact for one thread. */
export async function results({ load }, base, { names, counts, times }) {
  const wrong = [];
  for (const name of names) {
    const alone = await load(`${base}/${name}.wasm`);
    const inputs = given(alone);
    const expected = alone.run(...inputs);
    for (const threads of counts) {
      const exe = await load(`${base}/${name}-threads.wasm`, { threads });
      for (let i = 0; i < times; i++) {
        if (!exe.run(...inputs).every((array, j) => same(array, expected[j])))
          wrong.push(`${name} with ${threads} threads, run ${i}`);
      }
      exe.dispose();
    }
  }
  return wrong;
}

/**
 * Many forks, in several calls, none of which may take so long that a wake-up must have been lost; and some after
 * pauses.
 */
export async function forks({ load }, base, { name, threads, count, calls, lost }) {
  const wrong = [];
  const alone = await load(`${base}/${name}.wasm`);
  const exe = await load(`${base}/${name}-threads.wasm`, { threads });
  const x = Int32Array.from({ length: exe.parameters[1].bytes / 4 }, (_, i) => i);
  const run = (n) => {
    const begin = performance.now();
    const [made] = exe.run(Int32Array.of(n), x);
    if (performance.now() - begin > lost * 1000) wrong.push(`a wake-up was lost in ${n} forks`);
    if (!same(made, alone.run(Int32Array.of(n), x)[0])) wrong.push(`another result after ${n} forks`);
  };
  for (const n of [1, 7, 100, ...Array(calls).fill(count)]) run(n);
  for (const pause of [0, 1, 2, 5]) {
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      run(3);
    }
  }
  exe.dispose();
  return wrong;
}

/** In a worker of its own, which starts the others. */
export async function inWorker({ load }, base) {
  const alone = await load(`${base}/product.wasm`);
  const expected = alone.run(...given(alone));
  const exe = await load(`${base}/product-threads.wasm`, { worker: true, threads: 2 });
  const [made] = await exe.run(...given(exe));
  exe.dispose();
  return same(made, expected[0]) ? [] : ['another result'];
}

/** What is said of options that make no sense, and of a thread that fails. */
export async function errors({ load }, base) {
  const said = async (work) => {
    try {
      await work();
    } catch (error) {
      return `${error.name}: ${error.message}`;
    }
    return 'nothing';
  };
  const exe = await load(`${base}/product-threads.wasm`, { threads: 2 });
  const inputs = given(exe);
  exe.run(...inputs);
  const { buffer } = exe.input(exe.parameters[0].name);
  Atomics.store(new Int32Array(buffer, exe.manifest.threads.control), 34, 1);
  const failed = await said(() => exe.run(...inputs));
  const after = await said(() => exe.run(...inputs));
  exe.dispose();
  return {
    zero: await said(() => load(`${base}/product-threads.wasm`, { threads: 0 })),
    many: await said(() => load(`${base}/product-threads.wasm`, { threads: 1e6 })),
    alone: await said(() => load(`${base}/product.wasm`, { threads: 2 })),
    failed,
    after,
  };
}

/** Workers that end at any time: what they have not begun, others do. */
export async function killed({ load }, base, { times }) {
  const wrong = [];
  const alone = await load(`${base}/product.wasm`);
  const inputs = given(alone);
  const [expected] = alone.run(...inputs);
  for (let i = 0; i < times; i++) {
    const { workers, restore } = recorded();
    const exe = await load(`${base}/product-threads.wasm`, { threads: 3 });
    restore();
    if (workers.length !== 2) wrong.push(`${workers.length} workers`);
    exe.run(...inputs);
    for (const worker of workers) await worker.terminate();
    for (let k = 0; k < 3; k++) {
      if (!same(exe.run(...inputs)[0], expected)) wrong.push(`a result after the end of a worker, round ${i}`);
      await new Promise((resolve) => setTimeout(resolve, 5 * i));
    }
    exe.dispose();
  }
  return wrong;
}

/**
 * How often a worker is ended until that falls into a chunk: engines end it where its code looks for that, which may be
 * behind the chunk in which it was told to.
 */
const ATTEMPTS = 40;

/**
 * Workers that end while they compute a chunk: the run fails, soon and with one error, and the next executable is
 * right.
 */
export async function killedInAChunk({ load }, base, { threads }) {
  const alone = await load(`${base}/long.wasm`);
  const x = given(alone)[1];
  const [expected] = alone.run(Int32Array.of(2), x);
  const wrong = [];
  let said = '';
  for (let i = 0; i < ATTEMPTS && !said; i++) {
    const { kill, end } = kept();
    const exe = await load(`${base}/long-threads.wasm`, { threads });
    if (!same(exe.run(Int32Array.of(2), x)[0], expected)) wrong.push('another result before');
    await new Promise((resolve) => setTimeout(resolve, 200)); // for the watcher to begin
    const begin = performance.now();
    kill(100 + 7 * i);
    try {
      // Between two chunks nothing is lost.
      exe.run(Int32Array.of(100), x);
    } catch (error) {
      said = `${error.name}: ${error.message}`;
      if (performance.now() - begin > 20_000) wrong.push(`it took ${performance.now() - begin} ms`);
      try {
        exe.run(Int32Array.of(2), x);
        wrong.push('an executable that has failed runs');
      } catch (after) {
        if (!after.message.includes('load it again')) wrong.push(after.message);
      }
    }
    exe.dispose();
    await end();
  }
  const exe = await load(`${base}/long-threads.wasm`, { threads });
  if (!same(exe.run(Int32Array.of(2), x)[0], expected)) wrong.push('another result after');
  exe.dispose();
  return { wrong, said };
}

/** The same in a worker, alone or as one of several devices, which begin again by themselves. */
export async function killedInAWorker({ load }, base, { devices }) {
  const alone = await load(`${base}/long.wasm`);
  const x = given(alone)[1];
  const [expected] = alone.run(Int32Array.of(2), x);
  const worker = new URL('kept_worker.mjs', import.meta.url);
  const killers = new BroadcastChannel('kill');
  const start = () => load(`${base}/long-threads.wasm`, { worker, threads: 2, devices });
  const run = (exe, n) =>
    devices
      ? exe.runReplicated(Array.from({ length: devices }, () => [Int32Array.of(n), x]))
      : exe.run(Int32Array.of(n), x);
  const wrong = [];
  let said = '';
  let exe = await start();
  for (let i = 0; i < ATTEMPTS && !said; i++) {
    if (i) {
      // The one that ended between two chunks is gone.
      exe.dispose();
      exe = await start();
    }
    if (!same((await run(exe, 2)).flat().at(-1), expected)) wrong.push('another result before');
    await new Promise((resolve) => setTimeout(resolve, 200)); // for the watcher to begin
    killers.postMessage(100 + 7 * i);
    await run(exe, 30).catch((error) => (said = `${error.name}: ${error.message}`));
  }
  if (!devices) {
    exe.dispose();
    exe = await start();
  }
  if (!same((await run(exe, 2)).flat().at(-1), expected)) wrong.push('another result after');
  exe.dispose();
  killers.close();
  return { wrong, said };
}

/** A time limit ends the waiting for a chunk that somebody has taken and never computes. */
export async function stolen({ load }, base) {
  const wrong = [];
  const alone = await load(`${base}/product.wasm`);
  const inputs = given(alone);
  const [expected] = alone.run(...inputs);
  for (let i = 0; i < 2; i++) {
    const exe = await load(`${base}/product-threads.wasm`, { threads: 2, timeout: 3 });
    if (!same(exe.run(...inputs)[0], expected)) wrong.push('another result before');
    const script = new URL('thief.mjs', import.meta.url);
    const node = globalThis.Worker ? undefined : process.getBuiltinModule('node:worker_threads');
    const thief = node ? new node.Worker(script) : new Worker(script, { type: 'module' });
    const begun = new Promise((resolve) => (node ? thief.on('message', resolve) : (thief.onmessage = resolve)));
    thief.postMessage({ buffer: exe.input(exe.parameters[0].name).buffer, control: exe.manifest.threads.control });
    await begun;
    let said = '';
    const begin = performance.now();
    try {
      while (performance.now() - begin < 20_000) exe.run(...inputs);
    } catch (error) {
      said = `${error.name}: ${error.message}`;
    }
    const wanted =
      "LimitError: a call of 'jit__lambda' took longer than the 3 s that the option timeout allows; load it again, with " +
      'a longer timeout';
    if (said !== wanted) wrong.push(said);
    exe.dispose();
    await thief.terminate();
  }
  return wrong;
}

/** A time limit ends a run in a worker, and its helpers with it; the next executable is right. */
export async function timeLimit({ load }, base, { times }) {
  const wrong = [];
  const alone = await load(`${base}/long.wasm`);
  const x = given(alone)[1];
  const [expected] = alone.run(Int32Array.of(2), x);
  for (let i = 0; i < times; i++) {
    const exe = await load(`${base}/long-threads.wasm`, { worker: true, threads: 3, timeout: 3 });
    if (!same((await exe.run(Int32Array.of(2), x))[0], expected)) wrong.push('another result');
    const begin = performance.now();
    const said = await exe.run(Int32Array.of(1e6), x).then(
      () => 'nothing',
      (error) => `${error.name}: ${error.message}`,
    );
    const spent = performance.now() - begin;
    const wanted =
      'LimitError: run took longer than the 3 s that the option timeout allows; its worker has been ended: load it';
    if (!said.startsWith(wanted)) wrong.push(said);
    if (spent < 2900 || spent > 15_000) wrong.push(`it took ${spent} ms`);
  }
  return wrong;
}

/** As `notIsolated`, in a page that is isolated, of a browser without shared memory, as WebKitGTK is. */
export async function noSharedMemory(api, base) {
  const before = globalThis.SharedArrayBuffer;
  delete globalThis.SharedArrayBuffer;
  try {
    const outcome = await notIsolated(api, base);
    for (const options of [{ devices: 2 }, { devices: 2, transport: 'shared' }]) {
      const group = await api.load(`${base}/product.wasm`, options).catch(({ message }) => ({ transport: message }));
      outcome.said.push(group.transport);
      group.dispose?.();
    }
    return outcome;
  } finally {
    globalThis.SharedArrayBuffer = before;
  }
}

/** In a page that is not isolated: one thread, and it says once what to do. */
export async function notIsolated({ load }, base) {
  const said = [];
  const { warn } = console;
  console.warn = (text) => said.push(text);
  const alone = await load(`${base}/product.wasm`);
  const inputs = given(alone);
  const [expected] = alone.run(...inputs);
  const wrong = [];
  for (let i = 0; i < 2; i++) {
    const exe = await load(`${base}/product-threads.wasm`, { threads: 2 });
    if (!same(exe.run(...inputs)[0], expected)) wrong.push('another result');
    exe.dispose();
  }
  console.warn = warn;
  return { wrong, said };
}
