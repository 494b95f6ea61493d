// One program on many devices at once, each in a worker: `load(source, {devices: ...})`. Mirrors
// xla_wasm/host/replicas.py.

import { accept, counted, describe } from '../arrays.js';
import { ArgumentError, LimitError, RunError, UnsupportedError } from '../errors.js';
import { byName, readStructures } from '../executor.js';
import { checkMemory, open } from '../load.js';
import { WorkerLost } from '../remote.js';
import { locationOf } from '../source.js';
import { after, late } from '../limits/budget.js';
import { WorkerGroup, pause } from './worker_group.js';
import { exchanges } from './exchange.js';
import { sourcesAndSinksOfAll } from '../requests/feeds.js';
import { makeGrid } from './grid.js';
import { explain, explainLate, isOwn } from './outcomes.js';
import { makeMailboxes } from './shared_memory.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */
/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {import('../load.js').LoadOptions} LoadOptions */
/** @typedef {import('./outcomes.js').Outcome} Outcome */
/**
 * Options behind the arguments of a run; lists have an entry for each device.
 * @typedef {object} ReplicatedOptions
 * @property {AbortSignal} [signal] ends the run on all devices
 * @property {boolean} [named] results come in objects by name; by default as the option of `load` says
 * @property {Source[]} [infeed] the items that each device takes, in order
 * @property {Sink[]} [outfeed] what takes the items that each device gives
 * @property {Record<string, Sink>[]} [send] functions by the names of what each device sends
 * @property {Record<string, Source>[]} [recv] items by the names of what each device receives
 */
/** @typedef {import('../requests/feeds.js').Source} Source */
/** @typedef {import('../requests/feeds.js').Sink} Sink */

const PATIENCE = 1; // seconds that devices have to say what they were doing when another one failed
const LAST_WORDS = 0.25; // the same when the time of a run is over, as a part of that time, and no longer than above
const WAITING = 60; // seconds that a device waits for others, and a worker has to start, if nothing is said
const HEADERS =
  'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp (or credentialless)';

/**
 * @param {import('../source.js').Source} source
 * @param {LoadOptions} options
 */
export async function loadReplicated(
  source,
  {
    devices,
    transport = 'auto',
    timeout: limit,
    onExchange,
    worker,
    signal,
    onProgress = () => {},
    customCalls = {},
    weights,
    named,
    untrusted,
    ...options
  },
) {
  if (!['auto', 'shared', 'messages'].includes(transport))
    throw new ArgumentError(`transport is 'auto', 'shared' or 'messages', not '${transport}'`);
  const timeout = limit ?? WAITING;
  onProgress({ phase: 'module', loaded: 0, total: 0 });
  const { portable } = await import('../remote.js');
  const files =
    weights === undefined ? undefined : await Promise.all([weights].flat().map((item) => portable(item, [], signal)));
  const strict = untrusted && (await import('../limits/untrusted.js'));
  // A response can be read once, and its bytes may be needed where modules cannot be handed over.
  const isRead = typeof (/** @type {any} */ (source)?.arrayBuffer) === 'function' || source instanceof Promise;
  const origin = strict
    ? await strict.readModule(source, options, signal)
    : isRead
      ? await portable(source, [], signal)
      : source;
  const { module, manifest } = await open(origin, { ...options, untrusted }, signal);
  const structures = await readStructures(manifest);
  const grid = makeGrid(manifest, /** @type {import('./grid.js').Count} */ (devices));
  await checkMemory(manifest, options, grid.count);
  if (strict) strict.checkManifest(manifest, options, grid.count);
  signal?.throwIfAborted();
  const progress = Array.from({ length: grid.count }, () => ({ loaded: 0, total: 0 }));
  const sum = (/** @type {'loaded' | 'total'} */ key) => progress.reduce((all, one) => all + one[key], 0);
  let isReady = false;
  let kind = transport;
  const workers = new WorkerGroup({
    grid,
    source: origin,
    location: locationOf(source) && (await portable(source, [])),
    module,
    manifest,
    options: {
      ...options,
      weights: files,
      customCalls: Object.keys(customCalls).filter((name) => typeof customCalls[name] === 'function'),
    },
    worker: typeof worker === 'string' || worker instanceof URL ? worker : true,
    makeMailboxes() {
      const made = mailboxes(kind, grid.count, manifest, untrusted ? options.memoryLimit : undefined);
      kind = made ? 'shared' : 'messages';
      return made;
    },
    timeout,
    customCalls,
    onProgress(device, { phase, loaded, total }) {
      progress[device] = { loaded, total };
      if (phase === 'weights' && !isReady) onProgress({ phase, loaded: sum('loaded'), total: sum('total') });
    },
    onExchange,
  });
  const stop = () => workers.end(signal?.reason);
  signal?.addEventListener('abort', stop);
  try {
    await workers.start(Array.from(progress.keys()));
  } catch (error) {
    workers.end(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
  isReady = true;
  onProgress({ phase: 'ready', loaded: sum('loaded'), total: sum('total') });
  return new ReplicatedExecutable(manifest, grid, workers, {
    timeout,
    limit,
    named: !!named,
    isPlain: !options.physical,
    structures,
  });
}

/**
 * The memory that devices share; nothing where they exchange data by messages.
 * @param {string} transport
 * @param {number} count
 * @param {Manifest} manifest
 * @param {number} [limit] the most bytes that it may have
 */
function mailboxes(transport, count, manifest, limit) {
  const stated = exchanges(manifest);
  if (transport === 'messages') return undefined;
  const isIsolated = /** @type {any} */ (globalThis).crossOriginIsolated !== false;
  if (!isIsolated || typeof SharedArrayBuffer === 'undefined') {
    if (transport === 'auto') return undefined;
    throw new UnsupportedError(
      isIsolated
        ? "this browser has no shared memory: load with transport: 'messages'"
        : `this page has no shared memory, since it is not cross-origin isolated: serve it with the headers ${HEADERS}, ` +
            `or load with transport: 'messages'`,
    );
  }
  try {
    return makeMailboxes(count, stated, limit);
  } catch (error) {
    if (transport === 'auto') return undefined;
    throw new LimitError(
      `there is no room for the memory that ${counted(count, 'device')} share${count === 1 ? 's' : ''}: ` +
        `${/** @type {Error} */ (error).message}; load with transport: 'messages'`,
      { cause: error },
    );
  }
}

/** A copy of an argument that is kept. @param {any} value @returns {any} */
function copied(value) {
  if (Array.isArray(value)) return value.map(copied);
  if (!ArrayBuffer.isView(value)) return value;
  const { shape } = /** @type {any} */ (value);
  return Object.assign(/** @type {any} */ (value).slice(), shape ? { shape } : {});
}

/** A program on many devices. Calls are served one after another. */
export class ReplicatedExecutable {
  #workers;
  #timeout;
  #limit;
  /** Is called when the time of a call is over. @type {() => void} */
  #expire = () => {};
  /** @type {unknown} */
  #late;
  #named;
  #structures;
  #inputs;
  #accept;
  /** @type {Map<string, any>[]} the weights that were set, by device */
  #weights;
  /** @type {Set<string>[]} the states that a failed run has spoilt, by device */
  #lost;
  /** @type {Set<number>} devices whose workers have to be started again */
  #broken = new Set();
  /** @type {Map<number, Promise<void>>} devices that are still busy with a run that is over */
  #busy = new Map();
  #runs = 0;
  #last = Promise.resolve();

  /**
   * Use `load`.
   * @param {Manifest} manifest
   * @param {import('./grid.js').Grid} grid
   * @param {WorkerGroup} workers
   * @param {{timeout: number, limit?: number, named: boolean, isPlain: boolean, structures?:
   *   import('../arrays/structures.js').Structures}} options `timeout` bounds waiting, `limit` a call
   */
  constructor(manifest, grid, workers, { timeout, limit, named, isPlain, structures }) {
    /** The artifact's manifest: its name, parameters, results, memory. @readonly */
    this.manifest = manifest;
    /** How many replicas and partitions there are. @readonly */
    this.devices = grid;
    /** How devices exchange data. @readonly @type {'shared' | 'messages'} */
    this.transport = workers.transport;
    this.#workers = workers;
    this.#timeout = timeout;
    this.#limit = limit;
    this.#named = named;
    this.#structures = structures;
    this.#inputs = manifest.parameters.filter((leaf) => leaf.kind === 'input');
    // Where an array's form is not that of its type and dimensions, the devices check it.
    const plain = isPlain && !manifest.parameters.some((leaf) => leaf.raw.sizes);
    this.#accept = plain ? accept : (/** @type {Leaf} */ _, /** @type {any} */ value) => value;
    this.#weights = Array.from({ length: grid.count }, () => new Map());
    this.#lost = Array.from({ length: grid.count }, () => new Set());
  }

  /** All parameters in order; those of kind `input` are the arguments of a device. */
  get parameters() {
    return this.manifest.parameters;
  }

  /** All results in order; those of kind `output` are what a device gives. */
  get results() {
    return this.manifest.results;
  }

  /**
   * Not here: devices are workers, and what they have, a page cannot see.
   * @param {string} name
   * @returns {never}
   */
  input(name) {
    throw new UnsupportedError(
      `'${this.manifest.name}' runs on several devices: there is no view of '${name}', whose memory is in ` +
        `their workers`,
    );
  }

  /**
   * Not here either.
   * @param {string} name
   * @returns {never}
   */
  output(name) {
    return this.input(name);
  }

  /**
   * Runs the program on all devices at once. `lists[d]` holds the arguments of device d (replica `d / partitions`,
   * partition `d % partitions`), in a list or by name, in structures as `run` of an Executable takes them. Arrays are
   * copied, or handed over if they are marked with `transfer`.
   * @param {any[]} lists
   * @param {ReplicatedOptions} [options]
   * @returns {Promise<any[]>} the results of each device
   */
  async runReplicated(lists, { named = this.#named, ...options } = {}) {
    const { count } = this.devices;
    if (!Array.isArray(lists) || lists.length !== count) {
      throw new ArgumentError(
        `runReplicated takes the arguments of each of ${counted(count, 'device')}, a list of lists; got ` +
          `${Array.isArray(lists) ? lists.length : typeof lists}`,
      );
    }
    const checked = lists.map((values, device) => this.#arguments(values, device));
    const results = await this.#inTurn(() => this.#run(checked, options));
    return named ? results.map((arrays) => byName(this.results, arrays)) : results;
  }

  /**
   * Runs the program on global arrays, in a list or by name, or in structures of them: each device gets its blocks, and
   * of the results a whole is made.
   * @param {any} values
   * @param {ReplicatedOptions} [options]
   * @returns {Promise<any>} the results, in a list or, with the option `named` here or of `load`, by name
   */
  async runGlobal(values, { named = this.#named, ...options } = {}) {
    const { inputs, outputs } = (await import('./shards.js')).shards(this.manifest, this.devices.count);
    if (this.#accept !== accept)
      throw new ArgumentError(
        `runGlobal takes arrays whose sizes are fixed and that are not 'physical': call runReplicated`,
      );
    const given = this.#positional(values, 'runGlobal');
    const parts = inputs.map((whole, i) => whole.split(given[i], `argument ${i} ('${whole.leaf.name}')`));
    const lists = Array.from(this.#lost, (_, device) => parts.map((blocks) => blocks[device]));
    const results = await this.#inTurn(() => this.#run(lists, options));
    const arrays = outputs.map((whole, i) => whole.join(results.map((own) => own[i])));
    return named ? byName(this.results, arrays) : arrays;
  }

  /**
   * Runs the program, as `runGlobal` does, on the arguments of the function that it was lowered from, and gives what
   * that returns: as `call` of an Executable.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async call(...values) {
    if (!this.#structures) throw (await import('../arrays/structures.js')).noStructure(this.manifest.name);
    return this.#structures.call(values, (arrays, options) => this.runGlobal(arrays, options));
  }

  /**
   * Sets a weight, or the state that the next run begins with: on all devices, or on one. Where devices have different
   * parts of it, all of them together get the whole array, and one its part. A name that others begin with stands for
   * all of them, as in `set` of an Executable.
   * @param {string} name
   * @param {any} value an array, or a structure of them
   * @param {number} [device]
   * @returns {Promise<void>}
   */
  async set(name, value, device) {
    const devices = device === undefined ? [...this.#lost.keys()] : [this.#device(device)];
    const below = this.#structures?.parts(name, value);
    /** @type {{leaf: Leaf, parts: any[]}[]} of each leaf what each device gets */
    const values = [];
    for (const [own, given] of below ?? [[name, value]]) {
      const leaf = this.#held(own);
      const what = `${leaf.kind} '${own}'`;
      const whole = device === undefined ? await this.#whole(leaf) : undefined;
      const kept = whole ? [] : copied(this.#accept(leaf, given, what));
      values.push({ leaf, parts: whole ? whole.split(given, what) : devices.map(() => kept) });
    }
    const asked = (/** @type {number} */ i) =>
      below
        ? Object.fromEntries(values.map(({ leaf, parts }) => [leaf.name.slice(name.length + 1), parts[i]]))
        : values[0].parts[i];
    await this.#inTurn(async () => {
      await this.#ready();
      await Promise.all(devices.map((d, i) => this.#workers.ask(d, 'set', [name, asked(i)])));
      devices.forEach((d, i) => {
        for (const { leaf, parts } of values) {
          this.#lost[d].delete(leaf.name);
          if (leaf.kind === 'weight') this.#weights[d].set(leaf.name, parts[i]);
        }
      });
    });
  }

  /**
   * A copy of a weight as it was set, or of a state as the last run left it: that of a device, or as all devices have
   * it, the whole of what they have parts of, and otherwise that of the first one. Of a name that others begin with, all
   * of them in their structure.
   * @param {string} name
   * @param {number} [device]
   * @returns {Promise<any>}
   */
  async get(name, device) {
    const below = this.#structures?.get(name, (own) => this.get(own, device));
    if (below)
      return Object.fromEntries(
        await Promise.all(Object.entries(below).map(async ([key, array]) => [key, await array])),
      );
    const leaf = this.#held(name);
    const whole = device === undefined ? await this.#whole(leaf) : undefined;
    const devices = whole ? [...this.#lost.keys()] : [this.#device(device ?? 0)];
    return this.#inTurn(async () => {
      await this.#ready();
      if (devices.some((d) => this.#lost[d].has(name))) throw lostState(name);
      const parts = await Promise.all(devices.map((d) => this.#workers.ask(d, 'get', [name])));
      return whole ? whole.join(parts) : parts[0];
    });
  }

  /** Ends the workers; what still waits for them is rejected, and whatever is called after that too. */
  dispose() {
    this.#workers.end(new RunError(`'${this.manifest.name}' has been disposed of: load it again`));
  }

  /** @param {string} name */
  #held(name) {
    const held = this.parameters.filter((leaf) => leaf.kind !== 'input');
    const leaf = held.find((one) => one.name === name);
    if (leaf) return leaf;
    throw new ArgumentError(
      `'${this.manifest.name}' has no weight or state called '${name}' (known: ${
        held
          .slice(0, 8)
          .map((one) => one.name)
          .join(', ') || 'it has none'
      })`,
    );
  }

  /**
   * The whole of an array of which devices have different parts.
   * @param {Leaf} leaf
   */
  async #whole(leaf) {
    if (leaf.raw.shards == null) return undefined;
    const whole = (await import('./shards.js')).globalArrays(this.manifest, this.devices.count).get(leaf);
    return whole?.isDivided ? whole : undefined;
  }

  /** @param {number} device */
  #device(device) {
    if (Number.isInteger(device) && device >= 0 && device < this.devices.count) return device;
    throw new ArgumentError(`'${this.manifest.name}' runs on devices 0 to ${this.devices.count - 1}, not ${device}`);
  }

  /**
   * @param {any} values
   * @param {string} what
   * @returns {any[]} one for each input
   */
  #positional(values, what) {
    if (this.#structures) {
      try {
        values = this.#structures.flat(Array.isArray(values) ? values : [values]);
      } catch (error) {
        throw error instanceof ArgumentError ? new ArgumentError(`${what}: ${error.message}`) : error;
      }
    }
    const names = this.#inputs.map((leaf) => leaf.name);
    if (values && Object.getPrototypeOf(values) === Object.prototype) {
      const unknown = Object.keys(values).find((name) => !names.includes(name));
      if (unknown !== undefined)
        throw new ArgumentError(
          `${what}: '${this.manifest.name}' has no argument called '${unknown}' (known: ` +
            `${names.slice(0, 8).join(', ')})`,
        );
      const missing = names.find((name) => !Object.hasOwn(values, name));
      if (missing !== undefined) throw new ArgumentError(`${what}: argument '${missing}' is missing`);
      return names.map((name) => values[name]);
    }
    if (Array.isArray(values) && values.length === names.length) return values;
    const wanted =
      this.#inputs
        .slice(0, 8)
        .map((leaf) => `${leaf.name}: ${describe(leaf)}`)
        .join(', ') + (names.length > 8 ? ', ...' : '');
    throw new ArgumentError(
      `${what}: '${this.manifest.name}' takes ${counted(names.length, 'argument')} (${wanted}), in a list or by ` +
        `name; got ${Array.isArray(values) ? values.length : typeof values}`,
    );
  }

  /**
   * The arguments of a device, checked.
   * @param {any} values
   * @param {number} device
   */
  #arguments(values, device) {
    const given = this.#positional(values, `device ${device}`);
    return this.#inputs.map((leaf, i) =>
      this.#accept(leaf, given[i], `device ${device}: argument ${i} ('${leaf.name}')`),
    );
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const done = this.#last.then(() => this.#bounded(work));
    this.#last = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /**
   * Within the time that a call may take, if there is such a time. A run has its own way to end.
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async #bounded(work) {
    const limit = this.#limit;
    if (!limit) return work();
    this.#late = undefined;
    this.#expire = () => {
      this.#late = late(`a call of '${this.manifest.name}'`, limit);
      this.#workers.stop([...this.#lost.keys()], this.#late);
    };
    const timer = after(() => this.#expire(), limit);
    return work().finally(() => clearTimeout(timer));
  }

  /** All workers run, and wait for what to do. */
  async #ready() {
    if (this.#busy.size) {
      // Starting them again takes some of the time too.
      const { done, stop } = pause(this.#limit ? this.#limit / 2 : this.#timeout);
      await Promise.race([Promise.all(this.#busy.values()), done]);
      stop();
      for (const device of this.#busy.keys()) this.#broken.add(device);
      this.#busy.clear();
    }
    const devices = [...new Set([...this.#broken, ...this.#workers.gone])];
    if (!devices.length) return;
    if (this.#late) throw this.#late;
    await this.#workers.start(devices);
    const states = this.parameters.filter((leaf) => leaf.kind === 'state').map(({ name }) => name);
    for (const device of devices) {
      for (const [name, value] of this.#weights[device]) await this.#workers.ask(device, 'set', [name, value]);
      for (const name of states) this.#lost[device].add(name);
      this.#broken.delete(device);
    }
  }

  /**
   * @param {any[][]} lists
   * @param {ReplicatedOptions} options
   */
  async #run(lists, { signal, ...rest }) {
    const feeds = sourcesAndSinksOfAll(lists.length, rest);
    signal?.throwIfAborted();
    await this.#ready();
    for (const names of this.#lost) for (const name of names) throw lostState(name);
    const workers = this.#workers;
    const run = ++this.#runs;
    const begin = performance.now();
    /** @type {(Outcome | undefined)[]} */
    const outcomes = lists.map(() => undefined);
    /** @type {number[]} */
    const failures = [];
    let stop = () => {};
    const over = new Promise((resolve) => (stop = () => resolve(undefined)));
    const fail = () => {
      workers.fail(run);
      stop();
    };
    workers.clear();
    signal?.addEventListener('abort', fail);
    const tasks = lists.map((values, device) =>
      workers.ask(device, 'replica', [run, ...values], feeds[device]).then(
        (value) => void (outcomes[device] = { value }),
        (error) => {
          outcomes[device] = { error };
          if (isOwn(error)) this.#broken.add(device);
          if (failures.push(device) === 1) fail();
        },
      ),
    );
    const all = Promise.all(tasks);
    let isLate = false;
    this.#expire = () => {
      isLate = true;
      fail();
    };
    await Promise.race([all, over]);
    this.#expire = () => {};
    signal?.removeEventListener('abort', fail);
    const isDone = () => !failures.length && !signal?.aborted && outcomes.every(Boolean);
    if (isDone()) return outcomes.map((outcome) => outcome?.value);
    const last = pause(isLate ? Math.min(PATIENCE, LAST_WORDS * /** @type {number} */ (this.#limit)) : PATIENCE);
    await Promise.race([all, last.done]);
    last.stop();
    if (isDone()) return outcomes.map((outcome) => outcome?.value);
    if (isLate)
      workers.stop(
        [...outcomes.keys()].filter((device) => !outcomes[device]),
        new WorkerLost('its worker has been ended'),
      );
    this.#afterFailure(outcomes, tasks);
    if (isLate && !signal?.aborted) throw explainLate(this.devices, outcomes, /** @type {number} */ (this.#limit));
    throw signal?.aborted
      ? signal.reason
      : explain(this.devices, outcomes, failures, (performance.now() - begin) / 1000);
  }

  /**
   * Notes what the next run has to wait for, and what is no longer what it should be.
   * @param {(Outcome | undefined)[]} outcomes
   * @param {Promise<void>[]} tasks
   */
  #afterFailure(outcomes, tasks) {
    // Whoever is not done in the time that the next run gives it is started again.
    outcomes.forEach((outcome, device) => {
      if (!outcome)
        this.#busy.set(
          device,
          tasks[device].then(() => void this.#busy.delete(device)),
        );
    });
    if (outcomes.every((outcome) => outcome?.error instanceof ArgumentError)) return; // before anything was changed
    if (this.manifest.stateful) for (const device of outcomes.keys()) this.#broken.add(device);
    for (const { kind, name } of this.parameters) if (kind === 'state') for (const names of this.#lost) names.add(name);
  }
}

/** @param {string} name */
const lostState = (name) => new RunError(`the state '${name}' was lost when a run failed: set it again`);
