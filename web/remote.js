// An executable in a worker of its own: `load(source, {worker: true})`. The worker runs worker.js; this is the page's
// side.

import {
  ArgumentError,
  ArtifactError,
  ExchangeError,
  LimitError,
  RunError,
  UnsupportedError,
  XlaWasmError,
} from './errors.js';
import { byName, readStructures, takeOptions } from './executor.js';
import { after, late } from './limits/budget.js';
import { SourcesAndSinks } from './requests/feeds.js';
import { pack, unpack } from './messages.js';
import { readBytes } from './bytes.js';
import { builtin, inMemory, isLocal, locationOf } from './source.js';

/** @typedef {import('./source.js').Source} Source */
/** @typedef {import('./source.js').Bytes} Bytes */
/** @typedef {{resolve: (value: any) => void, reject: (error: unknown) => void, method: string}} Waiting */

/** The errors that come out of a worker, by name. @type {Record<string, any>} */
const ERRORS = Object.fromEntries(
  [ArgumentError, ArtifactError, ExchangeError, LimitError, RunError, UnsupportedError, XlaWasmError].map((kind) => [
    kind.prototype.name,
    kind,
  ]),
);

/** Methods whose arguments are not arrays of a caller. */
const AS_THEY_ARE = ['load', 'join', 'connect'];

/**
 * @param {Source} source
 * @param {import('./load.js').LoadOptions} options
 */
export async function loadRemote(
  source,
  { worker, signal, onProgress, customCalls = {}, weights, timeout, named, ...options },
) {
  const moved = /** @type {ArrayBuffer[]} */ ([]);
  const files =
    weights === undefined
      ? undefined
      : await Promise.all((Array.isArray(weights) ? weights : [weights]).map((item) => portable(item, moved, signal)));
  signal?.throwIfAborted();
  const most = options.untrusted ? (await import('./limits/untrusted.js')).mostBytes(options.memoryLimit) : undefined;
  const client = new WorkerClient(worker ?? true, customCalls, { onProgress }, timeout);
  const stop = () => client.end(signal?.reason);
  signal?.addEventListener('abort', stop);
  try {
    const what = [
      await portable(source, moved, signal, most && most + 1),
      {
        ...options,
        weights: files,
        customCalls: Object.keys(customCalls).filter((name) => typeof customCalls[name] === 'function'),
      },
    ];
    const manifest = await client.ask('load', what, moved);
    return new RemoteExecutable(manifest, client, named, await readStructures(manifest));
  } catch (error) {
    client.end(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

/**
 * A source as a worker can have it: addresses in full, since a worker's are relative to its script; responses as their
 * bytes.
 * @param {any} source
 * @param {ArrayBuffer[]} moved
 * @param {AbortSignal} [signal]
 * @param {number} [most] bytes that are of interest
 */
export async function portable(source, moved, signal, most) {
  const location = locationOf(source);
  const base = /** @type {any} */ (globalThis).document?.baseURI ?? /** @type {any} */ (globalThis).location?.href;
  if (location) return base && !isLocal(location) ? new URL(location, base).href : location;
  if (inMemory(source) || source?.[Symbol.toStringTag] === 'WebAssembly.Module') return source;
  const { buffer } = await readBytes(/** @type {Bytes} */ (source), signal, most);
  moved.push(buffer);
  return buffer;
}

/**
 * @param {true | string | URL} where
 * @returns {any} a worker of the page or, in Node, a thread
 */
export function start(where) {
  const Thread = typeof Worker === 'undefined' && builtin('node:worker_threads')?.Worker;
  const address = import.meta.url;
  if (Thread) return new Thread(where === true ? new URL('./worker.js', address) : new URL(where, address));
  if (typeof Worker === 'undefined')
    throw new UnsupportedError('there are no workers here: load without the option worker');
  try {
    // Bundlers look for exactly this.
    return where === true
      ? new Worker(new URL('./worker.js', import.meta.url), { type: 'module' })
      : new Worker(where, { type: 'module' });
  } catch {
    // A worker's script must be of the page's origin, what it imports need not be.
    const script = where === true ? new URL('./worker.js', address).href : new URL(where, location.href).href;
    const blob = new Blob([`import ${JSON.stringify(script)};`], { type: 'text/javascript' });
    return new Worker(URL.createObjectURL(blob), { type: 'module' });
  }
}

/** The worker is no more: it has ended by itself, or somebody has ended it. */
export class WorkerLost extends RunError {}

/**
 * Functions that hear the messages of a worker which need no answer.
 * @typedef {object} Listeners
 * @property {(progress: any) => void} [onProgress]
 * @property {(event: any) => void} [onExchange]
 */

/** Requests to the worker and their answers. */
export class WorkerClient {
  #worker;
  #customCalls;
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  /** The sources and sinks of runs that are under way, by request. @type {Map<number, SourcesAndSinks>} */
  #feeds = new Map();
  #count = 0;
  /** @type {unknown} */
  #over;
  #timeout;
  /** @type {any} */
  #timer;

  /**
   * @param {true | string | URL | boolean} where
   * @param {Record<string, Function>} customCalls
   * @param {Listeners} listeners
   * @param {number} [timeout] the seconds that the worker may take for a request; then it is ended
   */
  constructor(where, customCalls, { onProgress, onExchange }, timeout) {
    this.#customCalls = customCalls;
    this.#timeout = timeout;
    const failed = (/** @type {string} */ why, /** @type {unknown} */ cause) =>
      new ArtifactError(
        `the worker failed: ${why}. If a bundler moved worker.js, say where it is: load(source, {worker: ` +
          `'/path/worker.js'})`,
        { cause },
      );
    try {
      this.#worker = start(/** @type {any} */ (where));
    } catch (error) {
      throw error instanceof XlaWasmError ? error : failed(/** @type {Error} */ (error).message, error);
    }
    const receive = (/** @type {any} */ data) => {
      if (data.progress || data.exchanged) {
        try {
          if (data.progress) onProgress?.(data.progress);
          else onExchange?.(data.exchanged);
        } catch (error) {
          this.end(error);
        }
      } else if (data.call !== undefined) this.#serve(data);
      else {
        const waiting = this.#waiting.get(data.id);
        this.#waiting.delete(data.id);
        this.#idle();
        this.#watch();
        if (data.error) waiting?.reject(revive(data.error));
        else waiting?.resolve(unpack(data.value));
      }
    };
    const fail = (/** @type {any} */ event) => {
      event.preventDefault?.();
      const why =
        event.message ||
        'its script could not be loaded (wrong address, not JavaScript, or a Content-Security-Policy whose ' +
          'worker-src forbids it)';
      this.end(failed(why, event.error ?? event));
    };
    if (this.#worker.on) {
      this.#worker.on('message', receive);
      this.#worker.on('error', fail);
      this.#worker.on('exit', () => this.end(new WorkerLost('its worker has ended')));
    } else {
      this.#worker.onmessage = (/** @type {any} */ event) => receive(event.data);
      this.#worker.onerror = fail;
    }
  }

  /**
   * @param {string} method
   * @param {any[]} values
   * @param {(ArrayBuffer | MessagePort)[]} [moved]
   * @param {AbortSignal} [signal]
   * @param {SourcesAndSinks} [feeds] of a run
   * @returns {Promise<any>}
   */
  ask(method, values, moved = [], signal, feeds) {
    return new Promise((resolve, reject) => {
      if (this.#over) throw this.#over;
      signal?.throwIfAborted();
      const id = this.#count++;
      const stop = () => {
        this.#worker.postMessage({ abort: id });
        reject(signal?.reason);
      };
      const packed = AS_THEY_ARE.includes(method) ? values : pack(values, /** @type {ArrayBuffer[]} */ (moved));
      try {
        this.#worker.postMessage(
          { id, method, values: packed, abortable: !!signal, feeds: feeds?.keys },
          moved.filter((item) => /** @type {any} */ (item)[Symbol.toStringTag] !== 'SharedArrayBuffer'),
        );
      } catch (error) {
        throw new ArgumentError(
          `${method === 'load' ? 'the source or an option' : 'an argument'} cannot be sent to a worker: ` +
            `${/** @type {Error} */ (error).message}`,
          { cause: error },
        );
      }
      signal?.addEventListener('abort', stop);
      const settled = (/** @type {(value: any) => void} */ settle) => (/** @type {any} */ value) => {
        signal?.removeEventListener('abort', stop);
        this.#feeds.delete(id);
        settle(value);
      };
      if (feeds) this.#feeds.set(id, feeds);
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject), method });
      this.#idle();
      if (this.#waiting.size === 1) this.#watch();
    });
  }

  /** A thread of Node keeps the process only while something waits for it. */
  #idle() {
    this.#worker[this.#waiting.size ? 'ref' : 'unref']?.();
  }

  /** Requests are served one after another, so the time of the first that waits has begun. */
  #watch() {
    clearTimeout(this.#timer);
    const [first] = this.#waiting.values();
    if (first && this.#timeout)
      this.#timer = after(
        () =>
          this.end(
            late(
              first.method,
              /** @type {number} */ (this.#timeout),
              '; its worker has been ended: load it again, with a longer timeout',
            ),
          ),
        this.#timeout,
      );
  }

  /**
   * @param {{call: number, target: string, operands: any[], about: any, feed?:
   *   import('./requests/feeds.js').FeedMessage}} request
   */
  async #serve({ call, target, operands, about, feed }) {
    const moved = /** @type {ArrayBuffer[]} */ ([]);
    try {
      const value = await (feed
        ? this.#feeds.get(feed.run)?.pass(feed.kind, feed.name, unpack(feed.item))
        : this.#customCalls[target](...unpack(operands), about));
      this.#worker.postMessage({ answer: call, value: pack(value, moved) }, moved);
    } catch (error) {
      this.#worker.postMessage({ answer: call, error: String(error) });
    }
  }

  /**
   * Says something that needs no answer.
   * @param {any} message
   */
  tell(message) {
    this.#worker.postMessage(message);
  }

  /** Why it takes no more requests, if it does not. */
  get over() {
    return this.#over;
  }

  /** @param {unknown} reason what all who wait, and who come, are told */
  end(reason) {
    this.#over ??= reason;
    clearTimeout(this.#timer);
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(this.#over);
    this.#waiting.clear();
  }
}

/** @param {{name: string, message: string, cause?: string, wait?: import('./devices/exchange.js').Wait}} error */
function revive({ name, message, cause, wait }) {
  const revived = Object.hasOwn(ERRORS, name)
    ? new ERRORS[name](message, { cause })
    : new RunError(`${name}: ${message}`, { cause });
  return wait ? Object.assign(revived, { wait }) : revived;
}

/**
 * A module ready to run in a worker: an `Executable` whose methods give promises. Calls are served one after another.
 */
export class RemoteExecutable {
  #client;
  #named;
  #structures;

  /**
   * Use `load`.
   * @param {import('./manifest.js').Manifest} manifest
   * @param {WorkerClient} client
   * @param {boolean} [named] whether results come by name
   * @param {import('./arrays/structures.js').Structures} [structures]
   */
  constructor(manifest, client, named, structures) {
    /** The artifact's manifest: its name, parameters, results, memory. @readonly */
    this.manifest = manifest;
    this.#client = client;
    this.#named = named;
    this.#structures = structures;
  }

  /** All parameters in order; those of kind `input` are the arguments of `run`. */
  get parameters() {
    return this.manifest.parameters;
  }

  /** All results in order; those of kind `output` are what `run` returns. */
  get results() {
    return this.manifest.results;
  }

  /**
   * As `run` of an Executable, structures included; `{signal, named, infeed, ...}` may follow the arguments. Arrays are
   * copied, or handed over if they are marked with `transfer`.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async run(...values) {
    const {
      out,
      signal,
      named = this.#named,
      ...feeds
    } = takeOptions(values, !this.parameters.some((leaf) => leaf.kind === 'input'), this.#structures);
    if (out)
      throw new UnsupportedError(
        `'${this.manifest.name}' runs in a worker, from which results come in arrays of their own: there is no {out}`,
      );
    const arrays = await this.#client.ask(
      'run',
      this.#flat(values),
      [],
      signal,
      Object.keys(feeds).length ? new SourcesAndSinks(feeds) : undefined,
    );
    return named ? byName(this.results, arrays) : arrays;
  }

  /**
   * As `call` of an Executable: the arguments of the function that the module was lowered from, and what that returns.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  async call(...values) {
    if (!this.#structures) throw (await import('./arrays/structures.js')).noStructure(this.manifest.name);
    return this.#structures.call(values, (arrays, options) => this.run(...arrays, options));
  }

  /**
   * The same as `call`.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  callAsync(...values) {
    return this.call(...values);
  }

  /** @param {any[]} values */
  #flat(values) {
    return this.#structures ? this.#structures.flat(values) : values;
  }

  /**
   * Not here: what a worker has, a page cannot see.
   * @param {string} name
   * @returns {never}
   */
  input(name) {
    throw new UnsupportedError(
      `'${this.manifest.name}' runs in a worker: there is no view of '${name}', whose memory is there`,
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
   * Not here either: what is in place is there.
   * @returns {never}
   */
  runInPlace() {
    throw new UnsupportedError(`'${this.manifest.name}' runs in a worker, where nothing is in place: use run`);
  }

  /**
   * The same as `run`.
   * @param {...any} values
   * @returns {Promise<any>}
   */
  runAsync(...values) {
    return this.run(...values);
  }

  /**
   * @param {...any} values
   * @returns {Promise<[string, number][]>} instruction and seconds of every step that ran, loops summed
   */
  async profile(...values) {
    return this.#client.ask('profile', this.#flat(values));
  }

  /**
   * Sets a weight, or the state that the next run begins with; with a structure those that its name stands for, as an
   * Executable does.
   * @param {string} name
   * @param {any} value
   * @returns {Promise<void>}
   */
  async set(name, value) {
    const parts = this.#structures?.parts(name, value);
    return this.#client.ask('set', [
      name,
      parts ? Object.fromEntries([...parts].map(([own, array]) => [own.slice(name.length + 1), array])) : value,
    ]);
  }

  /**
   * A copy of a weight as it was set, or of a state as the last run left it; of a name that others begin with, all of
   * them in their structure.
   * @param {string} name
   * @returns {Promise<any>}
   */
  get(name) {
    return this.#client.ask('get', [name]);
  }

  /** Ends the worker; what still waits for it is rejected, and whatever is called after that too. */
  dispose() {
    this.#client.end(new RunError(`'${this.manifest.name}' has been disposed of: load it again`));
  }
}
