// Zip archives, as numpy.savez writes them.

import { Refusal, unreadable } from './refusal.js';

const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50];
const DEFLATED = 8;
const UTF8 = 0x800;

const table = new Int32Array(256).map((_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) crc = (crc >>> 8) ^ table[(crc ^ byte) & 255];
  return ~crc >>> 0;
}

/** @param {string} why @returns {never} */
const damaged = (why) => unreadable(`the body is not a zip archive, or damaged: ${why}`);

/**
 * The files of an archive by name.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} limit of what they may have in all
 */
export async function readZip(bytes, limit) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  const last = Math.max(0, end - 65535); // a comment may follow
  while (end >= last && view.getUint32(end, true) !== END) end--;
  if (end < last) damaged('it has no directory at its end');
  /** @type {Map<string, Uint8Array<ArrayBuffer>>} */
  const files = new Map();
  let at = view.getUint32(end + 16, true);
  let total = 0;
  for (let count = view.getUint16(end + 10, true); count; count--) {
    if (at + 46 > end || view.getUint32(at, true) !== CENTRAL) damaged('its directory ends early');
    const [flags, method, crc] = [
      view.getUint16(at + 8, true),
      view.getUint16(at + 10, true),
      view.getUint32(at + 16, true),
    ];
    const [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [nameLength, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const place = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
    at += 46 + nameLength + extra + comment;
    if (place + 30 > end || view.getUint32(place, true) !== LOCAL)
      damaged(`there is nothing where '${name}' should begin`);
    const start = place + 30 + view.getUint16(place + 26, true) + view.getUint16(place + 28, true);
    if (start + packed > end) damaged(`'${name}' ends early`);
    if (flags & 1) unreadable(`'${name}' in the archive is encrypted`);
    if (method !== 0 && method !== DEFLATED)
      unreadable(`'${name}' in the archive is compressed by method ${method}; known are 0 (stored) and 8 (deflated)`);
    if ((total += size) > limit)
      throw new Refusal(413, `the files in the archive have more than the ${limit} bytes that the inputs can need`);
    const data = bytes.subarray(start, start + packed);
    const file = method ? await inflate(data, size) : data;
    if (file?.length !== size || crc32(file) !== crc) damaged(`the content of '${name}' is not what it was`);
    if (files.has(name)) unreadable(`'${name}' is in the archive twice`);
    files.set(name, file);
  }
  return files;
}

/**
 * @param {Uint8Array<ArrayBuffer>} data
 * @param {number} size that it must come to
 * @returns {Promise<Uint8Array<ArrayBuffer> | undefined>}
 */
async function inflate(data, size) {
  const file = new Uint8Array(size);
  const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  let done = 0;
  try {
    for (let next; !(next = await reader.read()).done; done += next.value.length) file.set(next.value, done);
    return done === size ? file : undefined;
  } catch {
    // More than there is room for, or no deflated data.
    await reader.cancel().catch(() => {});
    return undefined;
  }
}

/**
 * An archive of files as they are, without compression.
 * @param {[string, Uint8Array][]} files
 */
export function writeZip(files) {
  const parts = files.map(([name, data]) => ({ name: new TextEncoder().encode(name), data, crc: crc32(data) }));
  const size = parts.reduce((sum, { name, data }) => sum + 30 + 46 + 2 * name.length + data.length, 22);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const put = (/** @type {number} */ width, /** @type {number[]} */ ...values) => {
    for (const value of values) {
      if (width === 2) view.setUint16(at, value, true);
      else view.setUint32(at, value, true);
      at += width;
    }
  };
  const append = (/** @type {Uint8Array} */ data) => {
    bytes.set(data, at);
    at += data.length;
  };
  // Version, flags, method, time and date (the first that there is), which both headers state.
  const [VERSION, NO_TIME, FIRST_DAY] = [20, 0, 0x21];
  const places = parts.map(({ name, data, crc }) => {
    const place = at;
    put(4, LOCAL);
    put(2, VERSION, UTF8, 0, NO_TIME, FIRST_DAY);
    put(4, crc, data.length, data.length);
    put(2, name.length, 0);
    append(name);
    append(data);
    return place;
  });
  const directory = at;
  parts.forEach(({ name, data, crc }, i) => {
    put(4, CENTRAL);
    put(2, VERSION, VERSION, UTF8, 0, NO_TIME, FIRST_DAY);
    put(4, crc, data.length, data.length);
    put(2, name.length, 0, 0, 0, 0);
    put(4, 0, places[i]);
    append(name);
  });
  const length = at - directory;
  put(4, END);
  put(2, 0, 0, parts.length, parts.length);
  put(4, length, directory);
  put(2, 0);
  return bytes;
}
