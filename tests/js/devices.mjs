// What tests of several devices need, in Node and in pages.

import { TYPES } from '../../web/arrays.js';

export const halt = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Tests that go on after one has failed; `wrong` says which did, and how. */
export function checks() {
  const wrong = [];
  return {
    wrong,
    async test(name, work) {
      try {
        await work();
      } catch (error) {
        wrong.push(`${name}: ${error} ${error.stack}`);
      }
    },
    equal(got, want) {
      if (JSON.stringify(got) !== JSON.stringify(want))
        throw new Error(`${JSON.stringify(got)} instead of ${JSON.stringify(want)}`);
    },
    async rejects(promise, name, message) {
      const error = await promise.then(
        (value) => new Error(`no error, but ${String(value).slice(0, 100)}`),
        (reason) => reason,
      );
      const isKind = name instanceof RegExp ? name.test(error.name) : error.name === name;
      if (!isKind || !message.test(error.message))
        throw new Error(`${error.name}: ${error.message}; instead of ${name} ${message}`);
    },
  };
}

/**
 * A `load` for tests of what comes after it: on a busy machine it takes longer than a short timeout itself, and says
 * so, and is tried again.
 */
export const patient =
  (load) =>
  async (...all) => {
    for (let left = 50; ; left--) {
      try {
        return await load(...all);
      } catch (error) {
        if (error.name !== 'LimitError' || !/^load took longer/.test(error.message) || !left) throw error;
      }
    }
  };

const COMMANDS = { a: 0, g: 1, s: 2, r: 3, t: 4, u: 5, w: 6, '.': -1, '!': -2, '~': -3 };

/**
 * Arguments of a device of tests/support/scripted_devices.py, where `to` and `from` are all devices unless something
 * else is said.
 */
export function script(text, { devices = 2, to, from, x = 0 } = {}) {
  const all = Array.from({ length: devices }, (_, d) => d);
  const peers = (list) => Int32Array.from({ length: 4 }, (_, i) => list[i] ?? -1);
  const commands = Int32Array.from({ length: 256 }, (_, i) => COMMANDS[text[i] ?? '.']);
  return [commands, peers(to ?? all), peers(from ?? all), Int32Array.from({ length: 4096 }, (_, i) => x + i)];
}

/** The arguments of all devices, from JSON with the bytes of each in base64. */
export async function fetched(url, parameters) {
  const inputs = parameters.filter((leaf) => leaf.kind === 'input');
  const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  return (await (await fetch(url)).json()).map((list) =>
    list.map((text, i) => new TYPES[inputs[i].element_type].array(decoded(text))),
  );
}

/** Knows of all workers that are started from now on. */
export function spied() {
  const workers = [];
  const threads = globalThis.process?.getBuiltinModule?.('node:worker_threads');
  const [where, key] = threads && typeof Worker === 'undefined' ? [threads, 'Worker'] : [globalThis, 'Worker'];
  const Real = where[key];
  where[key] = class extends Real {
    #alive = true;

    constructor(address, ...all) {
      super(address, ...all);
      workers.push(this);
      this.address = String(address);
      this.on?.('exit', () => (this.#alive = false));
    }

    postMessage(message, ...all) {
      if (message.method === 'join') this.device = message.values[0].id;
      super.postMessage(message, ...all);
    }

    terminate() {
      // In a page nothing tells when it is gone; the tests count targets of the browser.
      if (!this.on) this.#alive = false;
      return super.terminate();
    }

    isAlive() {
      return this.#alive;
    }
  };
  return { workers, release: () => (where[key] = Real) };
}
