// Weights from files, straight into the module's memory as they arrive: the sidecar that the compiler wrote, and
// safetensors files.

import { Place, TYPES, counted, describe } from '../arrays.js';
import { CacheEntry } from './cache.js';
import { ArgumentError, ArtifactError, LimitError, RunError } from '../errors.js';
import { Broken, Download } from './download.js';
import { NARROW, widen } from './narrow.js';
import { show } from '../manifest.js';
import { beginning, chunks } from '../bytes.js';
import { decode, inMemory, isLocal, locationOf } from '../source.js';

/** @typedef {import('../source.js').Bytes} Bytes */
/** @typedef {import('../manifest.js').Manifest} Manifest */
/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {AsyncGenerator<Uint8Array<ArrayBuffer>>} Stream */

/**
 * The instance that files are poured into.
 * @typedef {object} Destination
 * @property {Manifest} manifest
 * @property {ArrayBuffer} buffer
 * @property {(index: number) => void} init
 * @property {(progress: import('../load.js').Progress) => void} onProgress
 * @property {AbortSignal} [signal]
 * @property {boolean} [cache]
 * @property {import('../limits/budget.js').Budget} [budget]
 * @property {Download} [download] of the first file, if it has begun
 */

/** The names of the element types in safetensors files. */
const DTYPES = new Map(
  (
    'BOOL:pred U8:u8 I8:s8 U16:u16 I16:s16 U32:u32 I32:s32 U64:u64 I64:s64 F16:f16 BF16:bf16 F32:f32 F64:f64 ' +
    'C64:c64 F8_E4M3:f8e4m3fn F8_E5M2:f8e5m2'
  )
    .split(' ')
    .map((row) => /** @type {[string, string]} */ (row.split(':'))),
);
const LONGEST_HEADER = 1e8;

/** Not the bytes there should be: fetching them anew may help. */
class Mismatch extends ArtifactError {}

/** Reads a stream of chunks piece by piece. */
class Reader {
  #stream;
  #rest = new Uint8Array(0);
  #what;
  #fresh = true;
  position = 0;

  /**
   * @param {Stream} stream
   * @param {(position: number) => string} what says that the stream ended too soon
   */
  constructor(stream, what) {
    this.#stream = stream;
    this.#what = what;
  }

  async #next() {
    const { done, value } = await this.#stream.next();
    if (done) return false;
    this.#rest = value;
    if (this.#fresh && /^\s*<(!doctype|html)/i.test(beginning(value))) {
      throw new ArtifactError(`${this.#what(0)}: it is an HTML page, so the address is probably wrong`);
    }
    this.#fresh = false;
    return true;
  }

  /**
   * The next bytes, in pieces.
   * @param {number} count
   * @param {(piece: Uint8Array, done: number) => void} [use]
   */
  async read(count, use) {
    for (let done = 0; done < count; ) {
      if (!this.#rest.length && !(await this.#next())) throw new Mismatch(this.#what(this.position));
      const piece = this.#rest.subarray(0, count - done);
      use?.(piece, done);
      this.#rest = this.#rest.subarray(piece.length);
      this.position += piece.length;
      done += piece.length;
    }
  }

  /** @param {number} count */
  async take(count) {
    const bytes = new Uint8Array(count);
    await this.read(count, (piece, done) => bytes.set(piece, done));
    return bytes;
  }

  close() {
    return this.#stream.return(undefined);
  }
}

/**
 * Asks for the first file before anybody knows the module. What is kept goes by the hash that the manifest has, so that
 * has to wait; so have further files, whose servers would wait for a reader.
 * @param {Promise<{manifest: Manifest, instance: WebAssembly.Instance}>} module nothing is wanted if this fails
 * @param {Bytes | Bytes[] | undefined} given
 * @param {import('../source.js').Source} source of the module; the sidecar lies beside it if nothing else is said
 * @param {Omit<Destination, 'manifest' | 'buffer' | 'init' | 'download'> & {untrusted?: boolean}} options
 * @returns what pours them
 */
export async function ask(module, given, source, options) {
  const location = locationOf(Array.isArray(given) ? given[0] : given);
  const download =
    location && !isLocal(location) && !options.cache && !options.untrusted
      ? new Download(location, options.signal)
      : undefined;
  download?.begin();
  module.catch(() => download?.drop());
  return async () => {
    const { manifest, instance } = await module;
    const { memory, init } = /** @type {any} */ (instance.exports);
    return pour({ ...options, manifest, buffer: memory.buffer, init, download }, given, source);
  };
}

/**
 * Sets the weights that files hold; gives the names of the parameters among them, and the bytes that have come and that
 * there are.
 * @param {Destination} destination
 * @param {Bytes | Bytes[] | undefined} given
 * @param {import('../source.js').Source} source
 * @returns {Promise<{given: Set<string>, loaded: number, total: number}>}
 */
async function pour(destination, given, source) {
  const { manifest, onProgress } = destination;
  const wanted = manifest.parameters.filter((leaf) => leaf.kind === 'weight');
  const sources = given === undefined ? [] : Array.isArray(given) ? given : [given];
  const isNamed = (/** @type {Bytes} */ source) =>
    !manifest.sidecarBytes ||
    /\.safetensors(?=$|[?#])/.test(locationOf(source) || /** @type {any} */ (source)?.url) ||
    (wanted.length && isSafetensors(inMemory(source)));
  const named = sources.filter(isNamed);
  const raw = sources.filter((source) => !isNamed(source));
  if (named.length && !wanted.length)
    throw new ArgumentError(`'${manifest.name}' takes no weights from files: they are inside, or there are none`);
  if (raw.length > 1) throw new ArgumentError(`'${manifest.name}' has one weights file, got ${raw.length}`);

  const sidecar = manifest.inits
    .filter((init) => init.kind === 'sidecar')
    .sort((a, b) => a.sidecar_offset - b.sidecar_offset);
  const size = (/** @type {{bytes: number}[]} */ items) => items.reduce((sum, item) => sum + item.bytes, 0);
  const total = size(sidecar) + (named.length ? size(wanted) : 0);
  // What has to be read once more is not taken back.
  let most = 0;
  const report = (/** @type {number} */ loaded) =>
    onProgress({ phase: 'weights', loaded: (most = Math.max(most, loaded)), total });
  report(0);
  if (sidecar.length) await pourSidecar(destination, sidecar, raw[0] ?? besides(source), report);
  prepareConstants(destination);
  const set = new Set();
  for (const source of named)
    await pourTensors(destination, wanted, set, source, (loaded) => report(size(sidecar) + loaded));
  const missing = wanted.filter((leaf) => !set.has(leaf.name));
  if (named.length && missing.length) {
    throw new ArtifactError(
      `${missing.length} of ${counted(wanted.length, 'weight')} of '${manifest.name}' ` +
        `${missing.length === 1 ? 'is' : 'are'} in none of the files: ${list(missing.map((leaf) => `'${leaf.name}'`))}`,
    );
  }
  return { given: set, loaded: most, total };
}

/**
 * Prepares what constants alone decide: after those of the sidecar are there, and before any weight, whose `init` may
 * read it.
 * @param {Destination} destination
 */
function prepareConstants(destination) {
  for (const { kind, index, name } of destination.manifest.inits)
    if (kind === 'segment') prepare(destination, index, name);
}

/**
 * `model.weights` beside `model.wasm`.
 * @param {import('../source.js').Source} source
 */
function besides(source) {
  const location = locationOf(source);
  return location ? location.replace(/(\.wasm)?(?=$|[?#])/, '.weights') : undefined;
}

/** @param {string[]} items */
const list = (items) => items.slice(0, 5).join(', ') + (items.length > 5 ? ', ...' : '');

/** Returns true for bytes that begin as a safetensors file does. @param {Uint8Array | undefined} bytes */
const isSafetensors = (bytes) =>
  bytes && bytes.length > 8 && bytes[8] === 0x7b && !(bytes[4] | bytes[5] | bytes[6] | bytes[7]);

/**
 * @param {Destination} destination
 * @param {import('../manifest.js').Init[]} entries in the order of the file
 * @param {Bytes | undefined} source
 * @param {(loaded: number) => void} report
 */
async function pourSidecar(destination, entries, source, report) {
  const { manifest, buffer } = destination;
  const needs = `the weights file of '${manifest.name}' must have ${counted(manifest.sidecarBytes, 'byte')}`;
  if (source === undefined) throw new ArtifactError(`${needs} and none was given: load(source, {weights: ...})`);
  // Web Crypto exists in secure contexts only; elsewhere the size must do.
  const subtle = globalThis.crypto?.subtle;
  const hash = async (/** @type {Uint8Array<ArrayBuffer>} */ bytes) =>
    Array.from(new Uint8Array(await subtle.digest('SHA-256', bytes)), (byte) =>
      byte.toString(16).padStart(2, '0'),
    ).join('');
  const key =
    destination.cache && subtle
      ? await hash(new TextEncoder().encode(entries.map((entry) => entry.sha256).join()))
      : undefined;
  const short = (/** @type {number} */ position) =>
    needs +
    (position
      ? ` but has only ${position}: it is cut short or of another module`
      : ` and is not at ${locationOf(source) || 'the source given'}`);
  let next = 0;
  /** Of each entry whether it is what it should be: found out while the next one comes. @type {Promise<void>[]} */
  const checks = [];
  const confirm = async (/** @type {number} */ entry) => {
    try {
      await checks[entry];
    } catch (error) {
      next = entry;
      throw error;
    }
  };
  await attempts(destination, source, key, !!subtle, short, async (reader) => {
    let loaded = entries.slice(0, next).reduce((sum, { bytes }) => sum + bytes, 0);
    for (; next < entries.length; next++) {
      const { name, index, staging, bytes, sidecar_offset, sha256 } = entries[next];
      if (sidecar_offset < reader.position)
        throw new ArtifactError(
          `the artifact's manifest is wrong: the weights of '${name}' overlap others in the file`,
        );
      await reader.read(sidecar_offset - reader.position);
      const place = new Uint8Array(buffer, staging, bytes);
      await reader.read(bytes, (piece, done) => {
        place.set(piece, done);
        report(loaded + done + piece.length);
      });
      if (subtle) {
        // This takes a copy of the bytes at once, so their place is free; of memory that threads share it takes none.
        checks[next] = hash(buffer instanceof ArrayBuffer ? place : place.slice()).then((found) => {
          if (found !== sha256)
            throw new Mismatch(
              `the weights of '${name}' are not those the module was compiled with: wrong or damaged weights file`,
            );
        });
        checks[next].catch(() => {});
      }
      prepare(destination, index, name);
      loaded += bytes;
      await confirm(next - 1);
    }
    await confirm(next - 1);
  });
}

/**
 * @param {Destination} destination
 * @param {Leaf[]} wanted
 * @param {Set<string>} set takes the names of those that were found
 * @param {Bytes} source
 * @param {(loaded: number) => void} report
 */
async function pourTensors(destination, wanted, set, source, report) {
  const { manifest, buffer } = destination;
  const what = locationOf(source) || /** @type {any} */ (source)?.url || 'the weights';
  const damaged = (/** @type {string} */ why) =>
    new ArtifactError(`${what} is not a safetensors file, or damaged: ${why}`);
  const short = (/** @type {number} */ position) =>
    position ? `${what} is cut short: it ends after ${counted(position, 'byte')}` : `${what} is not a safetensors file`;
  await attempts(
    destination,
    source,
    destination.cache ? locationOf(source) : undefined,
    false,
    short,
    async (reader) => {
      const length = Number(new DataView((await reader.take(8)).buffer).getBigUint64(0, true));
      if (length > LONGEST_HEADER) throw damaged(`its header would have ${length} bytes`);
      let header;
      try {
        header = JSON.parse(decode(await reader.take(length)));
      } catch (error) {
        throw error instanceof Mismatch ? error : damaged('its header is not JSON');
      }
      if (header === null || typeof header !== 'object') throw damaged('its header is not an object');
      const start = reader.position;
      const has = (/** @type {string} */ name) => name !== '__metadata__' && Object.hasOwn(header, name);
      // JAX names a leaf of the argument `params` "params.dense.kernel".
      const pairs = wanted.flatMap((leaf) =>
        [leaf.name, leaf.name.slice(leaf.name.indexOf('.') + 1)]
          .filter(has)
          .slice(0, 1)
          .map((name) => ({ leaf, name, tensor: header[name] })),
      );
      if (!pairs.length) {
        const found = Object.keys(header).filter(has);
        throw new ArtifactError(
          `${what} is of another model: '${manifest.name}' has the weights ${list(wanted.map((leaf) => leaf.name))}; ` +
            `the file has ${list(found) || 'none'}`,
        );
      }
      /**
       * Checks that a tensor takes so many bytes of the file.
       * @param {string} name
       * @param {any} tensor
       * @param {number} bytes
       */
      const place = (name, tensor, bytes) => {
        const [from, to] = [0, 1].map((i) => tensor.data_offsets?.[i]);
        if (!Number.isSafeInteger(from) || from < 0 || to !== from + bytes)
          throw damaged(`'${name}' lies at ${show(from)} to ${show(to)}, but has ${counted(bytes, 'byte')}`);
        return from;
      };
      let loaded = 0;
      /** The reads, in the order of the file. @type {{name: string, from: number, read: () => Promise<void>}[]} */
      const reads = [];
      for (const { leaf, name, tensor } of pairs) {
        const type = /** @type {string} */ (DTYPES.get(tensor?.dtype));
        const fits = (/** @type {any} */ shape, /** @type {(size: unknown, d: number) => boolean} */ test) =>
          Array.isArray(shape) && shape.length === leaf.dimensions.length && shape.every(test);
        const scale = `${name}.scale`;
        const isNarrow = leaf.element_type === 'f32' && type in NARROW && (type !== 's8' || has(scale));
        if (
          (type !== leaf.element_type && !isNarrow) ||
          !fits(tensor?.shape, (size, d) => size === leaf.dimensions[d])
        ) {
          throw new ArtifactError(
            `${what} does not fit '${manifest.name}': weight '${leaf.name}' is ${describe(leaf)}, the file's ` +
              `'${name}' is ${type ?? show(tensor?.dtype)}${show(tensor?.shape)}` +
              (type === 's8' && leaf.element_type === 'f32' ? ` without '${scale}'` : ''),
          );
        }
        const from = place(name, tensor, isNarrow ? (leaf.bytes / 4) * NARROW[type] : leaf.bytes);
        /** @type {import('./narrow.js').Scales | undefined} */
        let scales;
        if (isNarrow && type === 's8') {
          const { dtype, shape } = header[scale] ?? {};
          if (dtype !== 'F32' || !fits(shape, (size, d) => size === 1 || size === leaf.dimensions[d])) {
            throw damaged(
              `'${scale}' is ${DTYPES.get(dtype) ?? show(dtype)}${show(shape)}, but has to be f32 with the dimensions ` +
                `of '${name}', or 1 where all have the same scale`,
            );
          }
          const bytes =
            4 * shape.reduce((/** @type {number} */ product, /** @type {number} */ size) => product * size, 1);
          const before = place(scale, header[scale], bytes);
          if (before > from) throw damaged(`'${scale}' has to lie before '${name}'`);
          reads.push({
            name: scale,
            from: before,
            read: async () => void (scales = { shape, numbers: new Float32Array((await reader.take(bytes)).buffer) }),
          });
        }
        reads.push({
          name,
          from,
          async read() {
            await pourLeaf(destination, leaf, type, scales, reader, buffer, (done) => report(loaded + done));
            loaded += leaf.bytes;
            set.add(leaf.name);
          },
        });
      }
      reads.sort((a, b) => a.from - b.from);
      for (const { name, from, read } of reads) {
        const gap = start + from - reader.position;
        if (gap < 0) throw damaged(`'${name}' overlaps another`);
        await reader.read(gap);
        await read();
      }
    },
  );
}

/**
 * @param {Destination} destination
 * @param {Leaf} leaf
 * @param {string} type of the file's elements
 * @param {import('./narrow.js').Scales | undefined} scales of s8 for f32
 * @param {Reader} reader
 * @param {ArrayBuffer} buffer
 * @param {(done: number) => void} report
 */
async function pourLeaf(destination, leaf, type, scales, reader, buffer, report) {
  const init = leaf.init == null ? undefined : destination.manifest.inits[leaf.init];
  const factor = type === leaf.element_type ? 1 : 4 / NARROW[type];
  const part = init?.part ?? leaf.bytes;
  /** @param {Uint8Array} target what it is to hold @param {number} start the bytes before it */
  const read = async (target, start) => {
    const bytes = factor > 1 ? new Uint8Array(target.length / factor) : target;
    await reader.read(bytes.length, (piece, done) => {
      bytes.set(piece, done);
      report(start + (done + piece.length) * factor);
    });
    if (factor > 1) widen(type, bytes, target, start / 4, leaf.dimensions, scales);
  };
  const laid = new Place(leaf, new ArrayBuffer(leaf.bytes), 0);
  if (laid.order) {
    // Elements that the module wants in another order are set when all are there.
    const given = new Uint8Array(leaf.bytes);
    await read(given, 0);
    laid.write(new TYPES[leaf.element_type].array(given.buffer));
  }
  let call = init?.index ?? 0;
  let at = 0;
  do {
    const target = new Uint8Array(buffer, init ? init.staging : leaf.offset, Math.min(part, leaf.bytes - at));
    if (laid.order) target.set(new Uint8Array(laid.view.buffer, at, target.length));
    else await read(target, at);
    if (init) prepare(destination, call++, leaf.name);
  } while ((at += part) < leaf.bytes);
}

/**
 * @param {Destination} destination
 * @param {number} index
 * @param {string} name
 */
function prepare({ manifest, init, budget }, index, name) {
  try {
    budget?.check();
    init(index);
  } catch (error) {
    if (error instanceof LimitError) throw error;
    throw new RunError(
      `'${manifest.name}' failed preparing the weights of '${name}': ${/** @type {Error} */ (error).message}`,
      { cause: error },
    );
  }
}

/**
 * Reads a file from where it may be had: the cache, the network, and the network past its own caches if what came was
 * wrong. Nothing is read after what `use` wants: a response may go on for ever.
 * @param {Destination} destination
 * @param {Bytes} source
 * @param {string | undefined} key under which the file may be kept
 * @param {boolean} isHashed whether `use` notices what is wrong
 * @param {(position: number) => string} short
 * @param {(reader: Reader) => Promise<void>} use
 */
async function attempts({ signal, download: begun }, source, key, isHashed, short, use) {
  const location = locationOf(source);
  const download =
    location && !isLocal(location)
      ? begun?.location === location
        ? begun
        : new Download(location, signal)
      : undefined;
  const kept = download && key ? await CacheEntry.open(key) : undefined;
  const fresh = (/** @type {RequestCache} */ cache) => async () => {
    if (!download) return chunks(source, signal);
    const { stream, headers } = await download.open(cache, isHashed);
    return kept ? kept.keep(stream, headers) : stream;
  };
  const ways = download ? [fresh('default'), fresh('reload')] : [fresh('default')];
  const old = await kept?.find();
  if (kept && old && (key !== location || (await current(location, old))))
    ways.unshift(async () => chunks(old, signal));
  for (let way; (way = ways.shift()); ) {
    const reader = new Reader(await way(), short);
    try {
      await use(reader);
      kept?.hasAll();
      return;
    } catch (error) {
      if (download && error instanceof Broken) ways.unshift(way);
      else if (!(error instanceof Mismatch) || !ways.length) throw error;
      await kept?.drop();
    } finally {
      await reader.close();
    }
  }
}

/**
 * Returns true if the file in the cache is still what the server has, or if there is no network.
 * @param {string} location
 * @param {Response} old
 */
async function current(location, old) {
  try {
    const now = await fetch(location, { method: 'HEAD', cache: 'no-cache' });
    return now.ok && ['ETag', 'Last-Modified'].every((name) => now.headers.get(name) === old.headers.get(name));
  } catch {
    return true;
  }
}
