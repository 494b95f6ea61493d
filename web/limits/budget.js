// The time that one call may take: `load` takes this in for its option `timeout`. JavaScript cannot interrupt
// WebAssembly, so where the module runs in this thread the clock is looked at between two calls into it; a worker is
// ended from outside, see remote.js.

import { ArgumentError, LimitError } from '../errors.js';
import { clock } from '../source.js';

const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can be set to

/**
 * A timer of so many seconds, or of the longest there is; none in worklets, which have no timers.
 * @param {() => void} work
 * @param {number} seconds
 */
export const after = (work, seconds) => globalThis.setTimeout?.(work, Math.min(Math.max(seconds, 0) * 1000, LONGEST));

/** @param {unknown} seconds */
export function checkTimeout(seconds) {
  if (typeof seconds !== 'number' || !(seconds > 0))
    throw new ArgumentError(`timeout is in seconds, above 0; got ${seconds}`);
}

/**
 * @param {string} what the call
 * @param {number} seconds
 * @param {string} [then] what came of it, and what to do
 */
export const late = (what, seconds, then = ': load it with a longer timeout') =>
  new LimitError(`${what} took longer than the ${seconds} s that the option timeout allows${then}`);

/** The time of the call that is under way. */
export class Budget {
  #seconds;
  #what = 'load';
  #end;

  /** @param {number} seconds */
  constructor(seconds) {
    checkTimeout(seconds);
    this.#seconds = seconds;
    this.#end = clock.now() + seconds * 1000;
  }

  /**
   * Another call begins.
   * @param {string} what
   */
  begin(what) {
    this.#what = what;
    this.#end = clock.now() + this.#seconds * 1000;
  }

  /** Throws if the time is over. */
  check() {
    if (clock.now() >= this.#end) throw this.#late();
  }

  #late() {
    return late(this.#what, this.#seconds);
  }

  /**
   * Does work that is told when the time is over, or when the caller aborts it.
   * @template T
   * @param {AbortSignal | undefined} signal
   * @param {(signal: AbortSignal) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async telling(signal, work) {
    const control = new AbortController();
    const stop = () => control.abort(signal?.reason);
    signal?.addEventListener('abort', stop);
    const timer = after(() => control.abort(this.#late()), (this.#end - clock.now()) / 1000);
    try {
      if (signal?.aborted) stop();
      return await work(control.signal);
    } finally {
      if (timer) clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  /**
   * The same for work that does not always listen, as an engine that compiles: nobody waits for it any longer.
   * @template T
   * @param {AbortSignal | undefined} signal
   * @param {(signal: AbortSignal) => Promise<T>} work
   * @returns {Promise<T>}
   */
  within(signal, work) {
    return this.telling(signal, (told) => {
      const aborted = new Promise((_, reject) => told.addEventListener('abort', () => reject(told.reason)));
      return /** @type {Promise<T>} */ (Promise.race([work(told), aborted]));
    });
  }
}
