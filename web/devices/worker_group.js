// The workers of the devices of a group: started together, and again after they have failed.

import { ExchangeError } from '../errors.js';
import { WorkerClient, WorkerLost, portable } from '../remote.js';
import { hasLocks } from '../threads/locks.js';
import { clear, end } from './shared_memory.js';

/** @typedef {import('./exchange.js').ExchangeEvent} ExchangeEvent */
/** @typedef {import('./grid.js').Grid} Grid */

/**
 * Everything that a device is started with.
 * @typedef {object} Setup
 * @property {Grid} grid
 * @property {import('../source.js').Source} source
 * @property {string} location of the source, if it has one
 * @property {WebAssembly.Module} module the source, compiled
 * @property {import('../manifest.js').Manifest} manifest
 * @property {Record<string, any>} options for the executable of each
 * @property {true | string | URL} worker
 * @property {() => import('./shared_memory.js').Mailboxes | undefined} makeMailboxes without one, devices exchange data
 *   by messages
 * @property {number} timeout
 * @property {Record<string, import('../requests/requests.js').HostFunction>} customCalls
 * @property {(device: number, progress: import('../load.js').Progress) => void} onProgress
 * @property {(event: ExchangeEvent) => void} [onExchange]
 */

const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can be set to

/**
 * Resolves after some seconds, or when `stop` is called.
 * @param {number} seconds
 */
export function pause(seconds) {
  let stop = () => {};
  const done = new Promise((resolve) => {
    const timer = setTimeout(resolve, Math.min(seconds * 1000, LONGEST));
    stop = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
  return { done, stop };
}

/** The workers of a group, by the number of the device. */
export class WorkerGroup {
  #setup;
  /** @type {WorkerClient[]} */
  #clients = [];
  /** @type {AbortController[]} of what watches each worker */
  #watches = [];
  #mailboxes;
  /** @type {unknown} */
  #over;

  /** @param {Setup} setup */
  constructor(setup) {
    this.#setup = setup;
    this.#mailboxes = setup.makeMailboxes();
  }

  /** @returns {'shared' | 'messages'} */
  get transport() {
    return this.#mailboxes ? 'shared' : 'messages';
  }

  /** The devices whose workers have ended. */
  get gone() {
    return this.#clients.flatMap((client, device) => (client.over ? [device] : []));
  }

  /**
   * @param {number} device
   * @param {string} method
   * @param {any[]} values
   * @param {import('../requests/feeds.js').SourcesAndSinks} [feeds]
   * @returns {Promise<any>}
   */
  ask(device, method, values, feeds) {
    return this.#clients[device].ask(method, values, [], undefined, feeds);
  }

  /**
   * Starts the workers of devices, in the place of those that there were, and loads the module into them.
   * @param {number[]} devices
   */
  async start(devices) {
    const { customCalls, worker, onProgress, onExchange } = this.#setup;
    if (this.#over) throw this.#over;
    // What a worker writes while it ends must not reach the others.
    if (this.#mailboxes && this.#clients.length) this.#mailboxes = this.#setup.makeMailboxes();
    for (const device of devices) {
      this.#drop(device, new WorkerLost('its worker has been started again'));
      const named = Object.entries(customCalls).map(([name, f]) => [
        name,
        (/** @type {any[]} */ ...all) => f(...all.slice(0, -1), { ...all.at(-1), device }),
      ]);
      this.#clients[device] = new WorkerClient(worker, Object.fromEntries(named), {
        onProgress: (progress) => onProgress(device, progress),
        onExchange: (event) => onExchange?.({ device, ...event }),
      });
    }
    const ports = this.#ports(devices);
    const work = [...this.#clients.keys()].map((device) => {
      const connections = { mailboxes: this.#mailboxes, ports: ports[device] };
      return devices.includes(device)
        ? this.#load(device, connections)
        : this.#tell(device, 'connect', connections, connections);
    });
    const outcomes = await Promise.allSettled(work);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (!failed) return;
    outcomes.forEach(
      (outcome, device) =>
        (outcome.status === 'rejected' || devices.includes(device)) && this.#drop(device, failed.reason),
    );
    throw this.#over ?? failed.reason;
  }

  /** Before a run. */
  clear() {
    if (this.#mailboxes) clear(this.#mailboxes);
  }

  /**
   * Ends a run on all devices.
   * @param {number} run
   */
  fail(run) {
    if (this.#mailboxes) end(this.#mailboxes);
    else for (const client of this.#clients) client.tell({ over: run });
  }

  /**
   * Ends workers, which the next call starts again.
   * @param {number[]} devices
   * @param {unknown} reason
   */
  stop(devices, reason) {
    for (const device of devices) this.#drop(device, reason);
  }

  /** @param {unknown} reason what all who wait, and who come, are told */
  end(reason) {
    this.#over ??= reason;
    for (const device of this.#clients.keys()) this.#drop(device, this.#over);
  }

  /**
   * Message ports between these devices and all others, by device and peer.
   * @param {number[]} devices
   */
  #ports(devices) {
    const { count } = this.#setup.grid;
    const ports = Array.from({ length: count }, () => /** @type {Record<number, MessagePort>} */ ({}));
    if (this.#mailboxes) return ports;
    for (const device of devices) {
      for (let peer = 0; peer < count; peer++) {
        if (peer === device || ports[device][peer]) continue;
        const { port1, port2 } = new MessageChannel();
        ports[device][peer] = port1;
        ports[peer][device] = port2;
      }
    }
    return ports;
  }

  /**
   * Tells a worker something of the group, which it has to hear in time.
   * @param {number} device
   * @param {'join' | 'connect'} method
   * @param {import('./member.js').Connections | import('./member.js').Membership} what
   * @param {import('./member.js').Connections} connections
   */
  async #tell(device, method, what, { ports }) {
    const { grid, timeout } = this.#setup;
    const { done, stop } = pause(timeout);
    const heard = this.#clients[device].ask(method, [what], Object.values(ports)).then(() => true);
    const isInTime = await Promise.race([heard, done.then(() => false)]).finally(stop);
    if (!isInTime)
      throw new ExchangeError(`${grid.name(device)} did not start within ${timeout} s: its worker does not answer`);
  }

  /**
   * @param {number} device
   * @param {import('./member.js').Connections} connections
   */
  async #load(device, connections) {
    const { grid, timeout, location, manifest, options, module, source, onExchange } = this.#setup;
    const { replicas, partitions } = grid;
    const client = this.#clients[device];
    const lock = hasLocks() ? `xla-wasm ${crypto.randomUUID()}` : undefined;
    await this.#tell(
      device,
      'join',
      { id: device, replicas, partitions, timeout, source: location, reports: !!onExchange, lock, connections },
      connections,
    );
    if (lock) this.#watch(device, lock);
    const load = (/** @type {any} */ what) => client.ask('load', [what, options]);
    const program = await load(module).catch(async (error) => {
      // Some engines cannot hand a compiled module to a worker.
      if (error.cause?.name !== 'DataCloneError') throw error;
      return load(await portable(source, []));
    });
    const expected = `${manifest.hash} ${manifest.target}`;
    if (program !== expected)
      throw new ExchangeError(
        `${grid.name(device)} runs another program than the rest: ${program}, not ${expected}. Load the same ` +
          `artifact on all devices`,
      );
  }

  /**
   * Notices the end of a worker where nothing tells of it, in browsers: the worker holds a lock, which then comes free.
   * @param {number} device
   * @param {string} lock
   */
  #watch(device, lock) {
    const client = this.#clients[device];
    const { signal } = (this.#watches[device] = new AbortController());
    navigator.locks.request(lock, { signal }, () => client.end(new WorkerLost('its worker has ended'))).catch(() => {});
  }

  /**
   * @param {number} device
   * @param {unknown} reason
   */
  #drop(device, reason) {
    this.#watches[device]?.abort();
    this.#clients[device]?.end(reason);
  }
}
