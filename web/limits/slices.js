// Runs a module step by step, in slices of some milliseconds, so that a page stays alive and an AbortSignal is heard.

import { clock } from '../source.js';

const SLICE = 10; // milliseconds

// A message comes back sooner than a timer, which browsers hold back; Node serves messages before timers, but has a
// call for this.
const { setImmediate } = /** @type {any} */ (globalThis);

/**
 * @param {(pc: number) => number | Promise<number>} step runs one step and gives the next, -1 at the end
 * @param {AbortSignal} signal
 * @param {ArrayBuffer} buffer
 * @param {{leaf: import('../manifest.js').Leaf}[]} held what stays inside between runs
 * @param {() => void} ended is called when it has ended, in whatever way
 */
export async function inSlices(step, signal, buffer, held, ended) {
  // A run that ends early leaves states as they were, sizes of dynamic dimensions included.
  const places = held
    .filter(({ leaf }) => leaf.kind === 'state')
    .flatMap(({ leaf: { offset, bytes, raw } }) => [{ offset, bytes }, ...sizes(raw.sizes)]);
  /** @type {ArrayBuffer[]} */
  let before = [];
  const channel = setImmediate ? undefined : new MessageChannel();
  const pause = (/** @type {() => void} */ resume) => {
    if (!channel) return setImmediate(resume);
    channel.port1.onmessage = resume;
    channel.port2.postMessage(0);
  };
  try {
    before = places.map(({ offset, bytes }) => buffer.slice(offset, offset + bytes));
    for (let pc = 0; pc >= 0; ) {
      signal.throwIfAborted();
      const until = clock.now() + SLICE;
      do {
        const next = step(pc);
        pc = typeof next === 'number' ? next : await next;
      } while (pc >= 0 && clock.now() < until);
      if (pc >= 0) await new Promise((resolve) => pause(() => resolve(undefined)));
    }
  } catch (error) {
    const memory = new Uint8Array(buffer);
    before.forEach((bytes, i) => memory.set(new Uint8Array(bytes), places[i].offset));
    throw error;
  } finally {
    channel?.port1.close();
    ended();
  }
}

/** @param {(number | null)[]} [addresses] */
const sizes = (addresses = []) => addresses.flatMap((offset) => (offset === null ? [] : { offset, bytes: 4 }));
