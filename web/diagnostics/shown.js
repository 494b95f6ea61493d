// How an executable shows itself in Node, Deno and Bun: `console.log(exe)` prints one line, as `repr` does in Python.

import { describe } from '../arrays.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/** @typedef {{manifest: import('../manifest.js').Manifest}} Shown */

const MOST_NAMED = 4;
const LONGEST = 40;

/** Characters that a terminal would obey, turn around or not show. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/**
 * Has all executables of a class show themselves.
 * @param {Shown} exe one of them
 */
export function show(exe) {
  const prototype = Object.getPrototypeOf(exe);
  const name = Symbol.for('nodejs.util.inspect.custom');
  if (Object.hasOwn(prototype, name)) return;
  /** @this {Shown} */
  const inspect = function () {
    return this.manifest ? line(this.manifest) : this; // the prototype itself has none
  };
  Object.defineProperty(prototype, name, { value: inspect, configurable: true, writable: true });
}

/** @param {import('../manifest.js').Manifest} manifest */
function line({ name, parameters, results }) {
  const of = (/** @type {readonly Leaf[]} */ leaves, /** @type {string} */ kind) =>
    leaves.filter((leaf) => leaf.kind === kind);
  const held = ['weight', 'state'].map((kind) => [kind, of(parameters, kind)]).filter(([, { length }]) => length);
  const parts = held.map(
    ([kind, leaves]) => `; ${kind}${leaves.length === 1 ? '' : 's'} ${named(/** @type {Leaf[]} */ (leaves))}`,
  );
  const interface_ =
    `${named(of(parameters, 'input')) || 'no inputs'} -> ` + `${named(of(results, 'output')) || 'no outputs'}`;
  return `<Executable '${short(name)}': ${interface_}${parts.join('')}>`.replace(UNSEEN, '\ufffd');
}

/** @param {Leaf[]} leaves */
function named(leaves) {
  const shown = leaves.slice(0, MOST_NAMED).map((leaf) => `${short(leaf.name)} ${describe(leaf)}`);
  if (leaves.length > MOST_NAMED) shown.push(`and ${(leaves.length - MOST_NAMED).toLocaleString('en')} more`);
  return shown.join(', ');
}

/** @param {string} name */
const short = (name) => ([...name].length > LONGEST ? `${[...name].slice(0, LONGEST - 1).join('')}\u2026` : name);
