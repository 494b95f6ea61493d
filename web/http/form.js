// multipart/form-data, which forms of pages send. Its parts are bytes, which a FormData would take for text where they
// have no file name.

import { unreadable } from './refusal.js';

/** @typedef {{name: string, filename: string, type: string | undefined, bytes: Uint8Array<ArrayBuffer>}} Part */

/** Returns a name without the escapes that browsers write for signs that would end it. @param {string} name */
const unescaped = (name) =>
  name
    .replace(/%22/g, '"')
    .replace(/%0d/gi, '\r')
    .replace(/%0a/gi, '\n')
    .replace(/\\(["\\])/g, '$1');

/**
 * The parts of a form.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {string | undefined} boundary
 * @returns {Part[]}
 */
export function readForm(bytes, boundary) {
  if (!boundary) return unreadable('the Content-Type multipart/form-data has no boundary');
  // A character for each byte, to search in.
  const text = new TextDecoder('latin1').decode(bytes);
  const delimiter = `\r\n--${boundary}`;
  const parts = [];
  // The first delimiter may stand at the very beginning.
  let at = text.startsWith(delimiter.slice(2)) ? delimiter.length - 2 : end(text, delimiter, 0) + delimiter.length;
  while (!text.startsWith('--', at)) {
    const head = /[ \t]*\r\n/y;
    head.lastIndex = at;
    const start = head.test(text)
      ? head.lastIndex
      : unreadable('a boundary of the form is followed by something else than a line');
    // A part without headers begins with an empty line.
    const blank = text.startsWith('\r\n', start) ? start - 2 : end(text, '\r\n\r\n', start);
    const headers = new TextDecoder().decode(bytes.subarray(start, Math.max(start, blank)));
    const next = end(text, delimiter, blank + 2);
    const disposition = /^content-disposition:\s*form-data\b(.*)$/im.exec(headers)?.[1] ?? '';
    const [, name] = /;\s*name="((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? /;\s*name=([^\s;]+)/i.exec(disposition) ?? [];
    if (name === undefined) return unreadable('a part of the form has no name');
    const [, filename = ''] = /;\s*filename="((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? [];
    const type = /^content-type:\s*(.*?)\s*$/im.exec(headers)?.[1];
    parts.push({ name: unescaped(name), filename, type, bytes: bytes.slice(Math.min(blank + 4, next), next) });
    at = next + delimiter.length;
  }
  return parts;
}

/**
 * @param {string} text
 * @param {string} sign
 * @param {number} from
 */
function end(text, sign, from) {
  const at = text.indexOf(sign, from);
  return at < 0 ? unreadable('the form ends early') : at;
}
