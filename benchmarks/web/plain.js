// An all-reduce as one writes it by hand: every worker puts its array into shared memory, waits for the others, and
// adds up in a loop.

/** @type {Int32Array} who has come, and whose turn it is */
let words;
/** @type {Float32Array[]} */
let parts;
/** @type {Float32Array} */
let x;
/** @type {Float32Array} */
let y;
/** @type {number} this worker's place among the parts */
let own;

/** Waits until all have come. */
function meet() {
  const turn = Atomics.load(words, 1);
  if (Atomics.add(words, 0, 1) === parts.length - 1) {
    Atomics.store(words, 0, 0);
    Atomics.add(words, 1, 1);
    Atomics.notify(words, 1);
  } else while (Atomics.load(words, 1) === turn) Atomics.wait(words, 1, turn);
}

function reduce() {
  parts[own].set(x);
  meet();
  for (let i = 0; i < y.length; i++) {
    let sum = 0;
    for (const part of parts) sum += part[i];
    y[i] = sum;
  }
  meet();
}

globalThis.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.shared) {
    ({ x, own } = data);
    y = new Float32Array(x.length);
    words = new Int32Array(data.shared, 0, 2);
    parts = Array.from(
      { length: data.count },
      (_, i) => new Float32Array(data.shared, 64 + 4 * i * x.length, x.length),
    );
  } else {
    for (let i = 0; i < data.times; i++) reduce();
    postMessage(0);
  }
};
