// What a worker of any kind answers to a page: worker_kinds.mjs asks it. `api` is the loader that the worker has.

const X = Float32Array.of(1, -3, 3, 0.5, 0, 9);
const message = (work) =>
  Promise.resolve(work).then(
    () => 'no error',
    (error) => `${error.name}: ${error.message}`,
  );

/** The results of the toy, with its weights from beside it and one that is set; every way in which a part is needed. */
async function runs({ load, supports }, base) {
  const exe = await load(`${base}/toy.wasm`);
  exe.set('w', new Float32Array(6).fill(1));
  const [y] = exe.run({ x: X, k: 41 });
  const signal = new AbortController().signal;
  const [sliced] = await exe.runAsync({ x: X, k: 41 }, { signal });
  const timed = await load(`${base}/toy.wasm`, { timeout: 60, weights: await fetch(`${base}/toy.weights`) });
  timed.set('w', new Float32Array(6).fill(1));
  const [late] = timed.run({ x: X, k: 41 });
  const tree = await load(`${base}/tree.wasm`);
  const called = tree.call({ w: X, b: [X] });
  return {
    results: [y, sliced, late].map((array) => Array.from(array)),
    called: Array.from(called),
    profiled: exe.profile({ x: X, k: 41 }).length > 0,
    simd: supports('simd128'),
  };
}

/** The errors of what cannot be there. */
async function refusals({ load }, base) {
  const source = `${base}/toy.wasm`;
  return {
    worker: await message(load(source, { worker: true })),
    devices: await message(load(source, { devices: 2 })),
    untrusted: await message(load(source, { untrusted: true })),
    option: await message(load(source, { wieghts: 1 })),
    missing: await message(load(`${base}/missing.wasm`)),
  };
}

const ANSWERS = { runs, refusals, plain: ({ load }, base) => message(load(`${base}/toy.wasm`)) };

/** Answers questions that come to this worker. */
export function answering(api, target = globalThis) {
  target.addEventListener('message', ({ data: { question, port } }) =>
    ANSWERS[question](api, location.origin).then(
      (answer) => port.postMessage({ answer }),
      (error) => port.postMessage({ error: `${error.name}: ${error.message}` }),
    ),
  );
}
