// What goes between a run and its host while it is under way: infeed, outfeed, and what is sent and received by name.
// `load` takes this in for modules that do so. Mirrors xla_wasm/host/feeds.py.

import { Place, counted, describe } from '../arrays.js';
import { ArgumentError, RunError } from '../errors.js';

/**
 * Gives items: each a typed array, or a list of them where an instruction takes several.
 * @typedef {Iterable<any> | AsyncIterable<any>} Source
 */

/**
 * Takes what comes out, a typed array or a list of several; with `runAsync` it may give a promise, which is awaited.
 * @typedef {((item: any) => any) | {push: (item: any) => any}} Sink
 */

/**
 * Both ends of the transfers of a run.
 * @typedef {object} FeedOptions
 * @property {Source} [infeed] the items that the run takes, in order
 * @property {Sink} [outfeed] what takes the items that the run gives
 * @property {Record<string, Sink>} [send] functions by the names of what the module sends
 * @property {Record<string, Source>} [recv] items by the names of what it receives
 */

/** @typedef {'infeed' | 'outfeed' | 'send' | 'recv'} Kind */

/**
 * A message of a worker to its page: an item of a run, or that it wants one.
 * @typedef {{run: number, kind: string, name: string, item?: any}} FeedMessage
 */

const OPCODES = { infeed: 'infeed', outfeed: 'outfeed', send: 'send', recv: 'recv-done' };
const VERBS = { infeed: 'takes', outfeed: 'gives', send: 'sends', recv: 'receives' };

/** @param {any} value */
const isObject = (value) => value !== null && typeof value === 'object';

/** @param {Kind} kind @param {string} name */
const example = (kind, name) => {
  const end = kind === 'infeed' || kind === 'recv' ? 'items' : '(item) => ...';
  return name ? `{${kind}: {'${name}': ${end}}}` : `{${kind}: ${end}}`;
};

/**
 * Does the work with a value, now or, if it is a promise, once it is there.
 * @param {any} value
 * @param {(value: any) => any} work
 */
const whenThere = (value, work) => (typeof value?.then === 'function' ? value.then(work) : work(value));

/** The sources and sinks that a caller gives for the transfers of a run, by kind and name. */
export class SourcesAndSinks {
  /** @type {Map<string, any>} */
  #given = new Map();
  /** @type {Map<string, Items>} */
  #items = new Map();

  /** @param {FeedOptions} options */
  constructor(options) {
    const { infeed, outfeed, ...named } = options;
    for (const [kind, end] of Object.entries({ infeed, outfeed })) if (end != null) this.#given.set(`${kind} `, end);
    for (const kind of /** @type {const} */ (['send', 'recv'])) {
      const ends = named[kind];
      if (ends != null && (!isObject(ends) || Symbol.iterator in ends))
        throw new ArgumentError(
          `${kind} must be an object with a member for each name, as in ${example(kind, 'name')}`,
        );
      for (const [name, end] of Object.entries(ends ?? {})) if (end != null) this.#given.set(`${kind} ${name}`, end);
    }
    for (const [key, end] of this.#given) {
      const [kind] = key.split(' ');
      if (kind === 'infeed' || kind === 'recv') this.#items.set(key, new Items(kind, end));
      else if (typeof end !== 'function' && typeof end.push !== 'function')
        throw new ArgumentError(`${kind} must be a function, or an object with a method push; got ${typeof end}`);
    }
  }

  /** The kinds and names that there are. @returns {[string, string][]} */
  get keys() {
    return [...this.#given.keys()].map((key) => [key.slice(0, key.indexOf(' ')), key.slice(key.indexOf(' ') + 1)]);
  }

  /** @param {string} kind @param {string} name */
  has(kind, name) {
    return this.#given.has(`${kind} ${name}`);
  }

  /**
   * Gives the next item of a source, or hands one over.
   * @param {string} kind
   * @param {string} name
   * @param {any} item
   */
  pass(kind, name, item) {
    return kind === 'infeed' || kind === 'recv' ? this.next(kind, name) : this.give(kind, name, item);
  }

  /**
   * The next item of a source, or a promise of it: as an iterator gives it, with its number.
   * @param {string} kind
   * @param {string} name
   * @returns {any}
   */
  next(kind, name) {
    return /** @type {Items} */ (this.#items.get(`${kind} ${name}`)).next();
  }

  /**
   * Hands an item to whoever takes it.
   * @param {string} kind
   * @param {string} name
   * @param {any} item
   * @returns {any}
   */
  give(kind, name, item) {
    const end = this.#given.get(`${kind} ${name}`);
    return typeof end === 'function' ? end(item) : void end.push(item);
  }
}

/**
 * The ends of a run on several devices, from lists with an entry for each.
 * @param {number} count
 * @param {Record<string, any>} options
 * @returns {(SourcesAndSinks | undefined)[]}
 */
export function sourcesAndSinksOfAll(count, options) {
  const given = Object.entries(options).filter(([, ends]) => ends != null);
  for (const [name, ends] of given) {
    if (!Object.hasOwn(OPCODES, name))
      throw new ArgumentError(
        `after its arguments, a run takes {signal, ${Object.keys(OPCODES).join(', ')}}, not '${name}'`,
      );
    if (!Array.isArray(ends) || ends.length !== count) {
      throw new ArgumentError(
        `${name} must be a list with an entry for each of ${counted(count, 'device')}; got ` +
          `${Array.isArray(ends) ? `${ends.length} ${ends.length === 1 ? 'entry' : 'entries'}` : typeof ends}`,
      );
    }
  }
  return Array.from({ length: count }, (_, device) =>
    given.length
      ? new SourcesAndSinks(Object.fromEntries(given.map(([name, ends]) => [name, ends[device]])))
      : undefined,
  );
}

/** The items of one source, counted. */
class Items {
  #iterator;
  count = 0;

  /** @param {string} kind @param {any} source */
  constructor(kind, source) {
    const begin = source[Symbol.asyncIterator] ?? source[Symbol.iterator];
    if (typeof begin !== 'function')
      throw new ArgumentError(`${kind} must be an iterable or an async iterable of items, got ${typeof source}`);
    this.#iterator = begin.call(source);
  }

  next() {
    const number = this.count++;
    // A promise as an item of what is no async iterable is awaited too.
    const numbered = (/** @type {IteratorResult<any>} */ { done, value }) =>
      whenThere(value, (item) => ({ done: !!done, value: item, number }));
    return whenThere(this.#iterator.next(), numbered);
  }
}

/** The transfers of an executable: which of its requests they are, and the ends that a run gives them. */
export class Feeds {
  #module;
  /** @type {{kind: Kind, target: string, name: string, wanted: string}[]} */
  #sites = [];
  /** @type {SourcesAndSinks} */
  #ends = new SourcesAndSinks({});

  /** @param {string} module its name */
  constructor(module) {
    this.#module = module;
  }

  /**
   * One of its requests.
   * @param {Kind} kind
   * @param {import('./requests.js').Request} transfer
   * @param {(buffer: ArrayBuffer) => import('../executor.js').Converter} converters
   * @returns {import('./requests.js').Binding}
   */
  bind(kind, { name, target, operands, results }, converters) {
    const leaves = results.length ? results : operands;
    const shapes = leaves.map(describe).join(', ');
    const what = `${OPCODES[kind]} '${name}'`;
    const wanted = leaves.length === 1 ? shapes : `(${shapes})`;
    this.#sites.push({ kind, target, name, wanted });
    return (buffer) => {
      const converter = converters(buffer);
      const places = leaves.map((leaf) => new Place(leaf, buffer));
      if (!results.length) {
        const ask = () => {
          const arrays = places.map((place) => converter.give(place.leaf, place.read()));
          return this.#ends.give(kind, target, arrays.length === 1 ? arrays[0] : arrays);
        };
        return { what, ask, take: () => {} };
      }
      const items = (/** @type {{done: boolean, value: any, number: number}} */ { done, value, number }) => {
        if (done) throw new RunError(`${what} takes item ${number} of this run, ${wanted}, but its feed has ended`);
        return { value, number };
      };
      const ask = () => whenThere(this.#ends.next(kind, target), items);
      const take = (/** @type {{value: any, number: number}} */ { value, number }) => {
        const arrays = asList(value, leaves.length);
        const item = `${what}, item ${number} of this run:`;
        if (!arrays) throw new ArgumentError(`${item} it must be ${counted(leaves.length, 'typed array')}, ${wanted}`);
        const accepted = leaves.map((leaf, i) =>
          converter.accept(leaf, arrays[i], `${item} ${leaves.length === 1 ? 'the array' : `array ${i}`}`),
        );
        places.forEach((place, i) => place.write(accepted[i]));
      };
      return { what, ask, take };
    };
  }

  /**
   * Before a run: its ends must be all that the module needs, and no others.
   * @param {FeedOptions} options
   */
  begin({ infeed, outfeed, send, recv }) {
    const ends = new SourcesAndSinks({ infeed, outfeed, send, recv });
    for (const [kind, name] of ends.keys) {
      if (!this.#sites.some((site) => site.kind === kind && site.target === name)) {
        const known = this.#sites.filter((site) => site.kind === kind).map(({ target }) => `'${target}'`);
        throw new ArgumentError(
          `'${this.#module}' was given ${kind}, but there is no ${kind} ` +
            `${name ? `of the name '${name}' (known: ${[...new Set(known)].join(', ') || 'it has none'})` : 'in it'}: leave it out`,
        );
      }
    }
    for (const { kind, target, name, wanted } of this.#sites) {
      if (!ends.has(kind, target)) {
        throw new ArgumentError(
          `'${this.#module}' ${VERBS[kind]} ${wanted} in ${OPCODES[kind]} '${name}': run(..., ` +
            `${example(kind, target)})`,
        );
      }
    }
    this.#ends = ends;
  }
}

/**
 * The arrays of an item; undefined if they are not as many.
 * @param {any} item
 * @param {number} count
 * @returns {any[] | undefined}
 */
function asList(item, count) {
  if (count === 1) return Array.isArray(item) && item.length === 1 && ArrayBuffer.isView(item[0]) ? item : [item];
  return Array.isArray(item) && item.length === count ? item : undefined;
}

/**
 * Items in order, from whoever pushes to whoever awaits: `for await (const item of queue)`, or `queue` as an infeed.
 * @template T
 */
export class Queue {
  /** @type {T[]} */
  #items = [];
  /** @type {((result: IteratorResult<T, undefined>) => void)[]} */
  #takers = [];
  #closed = false;

  /** @param {T} item */
  push(item) {
    if (this.#closed) throw new ArgumentError('this queue is closed');
    const taker = this.#takers.shift();
    if (taker) taker({ done: false, value: item });
    else this.#items.push(item);
  }

  /** No more items come; those that are there can still be taken. */
  close() {
    this.#closed = true;
    for (const taker of this.#takers.splice(0)) taker({ done: true, value: undefined });
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} the next item, once it is there */
  async next() {
    if (this.#items.length) return { done: false, value: /** @type {T} */ (this.#items.shift()) };
    return this.#closed ? { done: true, value: undefined } : new Promise((resolve) => this.#takers.push(resolve));
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

/**
 * The worker's ends of transfers whose others a page holds.
 * @param {[string, string][]} keys
 * @param {(kind: string, name: string, item?: any) => Promise<any>} ask
 * @returns {FeedOptions}
 */
export function proxies(keys, ask) {
  /** @type {any} */
  const options = {};
  for (const [kind, name] of keys) {
    const source = kind === 'infeed' || kind === 'recv';
    const end = source
      ? { [Symbol.asyncIterator]: () => ({ next: () => ask(kind, name) }) }
      : (/** @type {any} */ item) => ask(kind, name, item);
    if (name) (options[kind] ??= {})[name] = end;
    else options[kind] = end;
  }
  return options;
}
