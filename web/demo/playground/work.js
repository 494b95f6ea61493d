// Calls into a worker as promises.

export class Work {
  /** @type {Map<number, {done: (value: any) => void, fail: (error: Error) => void}>} */
  #open = new Map();
  #next = 0;

  /**
   * @param {() => Worker} make
   * @param {(message: any) => void} [told] what the worker says on its own
   */
  constructor(make, told) {
    this.make = make;
    this.told = told;
    this.worker = this.#start();
  }

  #start() {
    const worker = this.make();
    worker.onmessage = ({ data }) => {
      const call = this.#open.get(data.id);
      if (!call) return this.told?.(data);
      this.#open.delete(data.id);
      call.done(data);
    };
    /** @type {Error | null} */
    this.broken = null;
    worker.onerror = (event) => {
      const error = (this.broken = new Error(event.message || 'a worker of this page could not be loaded'));
      for (const { fail } of this.#open.values()) fail(error);
      this.#open.clear();
      this.told?.({ kind: 'broken', message: error.message });
    };
    return worker;
  }

  /**
   * @param {object} message
   * @returns {Promise<any>}
   */
  call(message) {
    const id = ++this.#next;
    return new Promise((done, fail) => {
      if (this.broken) return fail(this.broken);
      this.#open.set(id, { done, fail });
      this.worker.postMessage({ id, ...message });
    });
  }

  /** Ends what the worker does and begins anew. */
  restart() {
    this.worker.terminate();
    for (const { fail } of this.#open.values()) fail(new Error('stopped'));
    this.#open.clear();
    this.worker = this.#start();
  }
}
