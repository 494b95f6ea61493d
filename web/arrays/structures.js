// Arguments and results by their names and in structures: objects and lists of arrays. The loader takes this in for
// modules whose parameters have names of several parts, or that say in which structure their arguments and results are.
// Mirrors xla_wasm/host/structures.py.
//
// A name such as "params.dense.kernel" is a path: keys, indices and fields, joined by dots.

import { counted, describe } from '../arrays.js';
import { ArgumentError } from '../errors.js';
import { takeOptions } from '../executor.js';
import { fail } from '../manifest.js';
import { isPlain } from '../source.js';

/** @typedef {import('../manifest.js').Leaf} Leaf */
/**
 * @typedef {null | number | any[]} Tree nothing, the number of a leaf, or a kind, for some kinds a list of keys, and
 *   the children
 */

const KEYED = ['dict', 'object'];
const KINDS = [...KEYED, 'list', 'tuple'];
const DEEPEST = 64;
const MOST_NAMED = 8;

/** @param {any} value */
const isObject = (value) => value !== null && typeof value === 'object' && !ArrayBuffer.isView(value);

/** Returns true for an object with members that is neither a list nor an array. @param {any} value */
const isMapping = (value) => isObject(value) && !Array.isArray(value);

/**
 * Returns true for a value that can only be a structure: lists may be arrays of numbers, too.
 * @param {any} value
 * @returns {boolean}
 */
const isStructure = (value) =>
  isMapping(value) ||
  (Array.isArray(value) && value.some((item) => item == null || ArrayBuffer.isView(item) || isStructure(item)));

/**
 * Returns true for a value without arrays: such values were fixed when the program was traced.
 * @param {any} value
 * @returns {boolean}
 */
const isNothing = (value, depth = 0) =>
  value == null ||
  ['function', 'string'].includes(typeof value) ||
  (isObject(value) &&
    depth <= DEEPEST &&
    [...(value instanceof Map ? value.values() : Object.values(value))].every((item) => isNothing(item, depth + 1)));

/**
 * The members of what has all of them to show; of other objects only what is asked for is of interest, since they may
 * have more.
 * @param {any} value
 * @returns {[any, any][] | undefined}
 */
function members(value) {
  if (value instanceof Map || Array.isArray(value)) return [...value.entries()];
  return isPlain(value) || Object.getPrototypeOf(value) === null ? Object.entries(value) : undefined;
}

/** @param {any} value */
const kindOf = (value) =>
  value == null ? String(value) : (typeof value === 'object' && value.constructor?.name) || typeof value;

/** @param {string[]} names */
const some = (names) => names.slice(0, MOST_NAMED).join(', ') + (names.length > MOST_NAMED ? ', ...' : '');

/** @param {Leaf} leaf */
const described = (leaf) => `'${leaf.name}' (${describe(leaf)})`;

/**
 * Returns the value that a leaf was given. Throws ArgumentError if it is a structure.
 * @param {Leaf} leaf
 * @param {any} value
 */
function oneArray(leaf, value) {
  if (isStructure(value)) throw new ArgumentError(`${described(leaf)} must be one array, not a structure of several`);
  return value;
}

/**
 * The keys of a tree that is no leaf, or the numbers of its children, and the children.
 * @param {any[]} tree
 * @returns {[(string | number)[], Tree[]]}
 */
function parts(tree) {
  if (KEYED.includes(tree[0])) return [tree[1], tree.slice(2)];
  const children = tree.slice(1);
  return [[...children.keys()], children];
}

/**
 * The parts of a tree that a name leads to: where keys have dots, there may be several.
 * @param {Tree} tree
 * @param {string} path
 * @returns {Tree[]}
 */
function at(tree, path) {
  const [keys, children] = Array.isArray(tree) ? parts(tree) : [[], []];
  return keys.flatMap((key, i) => {
    if (path === `${key}`) return [children[i]];
    return path.startsWith(`${key}.`) ? at(children[i], path.slice(`${key}`.length + 1)) : [];
  });
}

/** The numbers of a tree's leaves, in order. @param {Tree} tree @returns {number[]} */
const leaves = (tree) => (Array.isArray(tree) ? parts(tree)[1].flatMap(leaves) : tree === null ? [] : [tree]);

/**
 * Why this is no tree; nothing if it is one.
 * @param {any} tree
 * @param {number} depth
 * @returns {string | undefined}
 */
function fault(tree, depth) {
  if (tree === null || Number.isSafeInteger(tree)) return undefined;
  if (depth > DEEPEST) return `a tree is deeper than ${DEEPEST}`;
  if (!Array.isArray(tree) || !KINDS.includes(tree[0]))
    return `expected a number, null, or a list that begins with one of ${KINDS.join(', ')}`;
  if (KEYED.includes(tree[0])) {
    const [kind, keys] = tree;
    const isKey = (/** @type {any} */ key) => typeof key === 'string' || (kind === 'dict' && Number.isSafeInteger(key));
    if (!Array.isArray(keys) || keys.length !== tree.length - 2 || !keys.every(isKey))
      return 'expected a key for each child';
    if (new Set(keys.map(String)).size !== keys.length) return 'two children have one key';
  }
  for (const child of parts(tree)[1]) {
    const why = fault(child, depth + 1);
    if (why) return why;
  }
  return undefined;
}

/**
 * Checks the description of the structures; throws ArtifactError naming what is wrong.
 * @param {import('../manifest.js').Manifest} manifest
 */
function check({ structure, parameters, results }) {
  if (!isPlain(structure)) fail('structure', 'expected an object');
  const { names, positional } = structure;
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string') || new Set(names).size !== names.length)
    fail('structure.names', 'expected a list of names, each once');
  if (!Number.isSafeInteger(positional) || positional < 0 || positional > names.length)
    fail('structure.positional', `expected an integer from 0 to ${names.length}`);
  if (!Array.isArray(structure.arguments) || structure.arguments.length !== names.length)
    fail('structure.arguments', `expected a list of ${counted(names.length, 'tree')}`);
  for (const [key, tree, { length }] of /** @type {const} */ ([
    ['arguments', ['list', ...structure.arguments], parameters],
    ['results', structure.results, results],
  ])) {
    const why =
      fault(tree, 0) ??
      (tree === undefined || String(leaves(tree)) !== String([...Array(length).keys()])
        ? `its leaves are not the numbers from 0 to ${length - 1}`
        : '');
    if (why) fail(`structure.${key}`, why);
  }
}

/** How the arguments, results, weights and states of a module are named, and in which structures they come and go. */
export class Structures {
  #manifest;
  #inputs;
  #names;
  /** The names of the arguments that have inputs, in order: "params" and "x" of "params.w", "params.b" and "x". */
  #heads;
  /** The trees of the arguments of `call`, by name. @type {Map<string, Tree>} */
  #arguments = new Map();

  /** @param {import('../manifest.js').Manifest} manifest */
  constructor(manifest) {
    this.#manifest = manifest;
    this.#inputs = manifest.parameters.filter((leaf) => leaf.kind === 'input');
    this.#names = new Set(this.#inputs.map((leaf) => leaf.name));
    const { structure } = manifest;
    if (structure == null) {
      this.#heads = [...new Set(this.#inputs.map(({ name }) => name.split('.', 1)[0]))];
      return;
    }
    check(manifest);
    const named = /** @type {[string, Tree][]} */ (
      structure.names.map((/** @type {string} */ name, /** @type {number} */ i) => [name, structure.arguments[i]])
    );
    this.#heads = named.filter(([, tree]) => this.#takes(tree)).map(([name]) => name);
    this.#arguments = new Map(named.filter(([, tree]) => this.#takes(tree) || !leaves(tree).length));
  }

  /**
   * Returns true if the last of the values of a run is an argument, and not the options that may follow them.
   * @param {any[]} values
   * @param {string[]} options that there are
   * @param {string[]} [names] of the arguments
   */
  isArgument(values, options, names = this.#heads) {
    const head = names[values.length - 1];
    if (head === undefined || this.#names.has(head)) return false;
    const below = [...this.#names]
      .filter((name) => name.startsWith(`${head}.`))
      .map((name) => name.slice(head.length + 1));
    return Object.keys(values.at(-1)).some(
      (key) => !options.includes(key) || below.some((name) => name === key || name.startsWith(`${key}.`)),
    );
  }

  /**
   * An array for each input, from arrays and structures by position, or from one object that has them by name. What is
   * neither stays as it is.
   * @param {any[]} values
   * @returns {any[]}
   */
  flat(values) {
    const { length } = values;
    if (!values.some(isStructure) && (length === this.#inputs.length || length !== this.#heads.length)) return values;
    const found = this.#found(values);
    return this.#inputs.map((leaf) => oneArray(leaf, found.get(leaf.name)));
  }

  /**
   * Runs on the arguments of the function that the module was lowered from, and gives what that returns.
   * @param {any[]} values arguments, and perhaps the options of a run
   * @param {(arrays: any[], options: any) => any} run gives a list of arrays, or a promise of one
   */
  call(values, run) {
    const { structure, name, results } = this.#manifest;
    if (structure == null) throw noStructure(name);
    const names = [...this.#arguments.keys()];
    const options = takeOptions(values, !this.#inputs.length, {
      isArgument: (given, known) => this.isArgument(given, known, names),
    });
    if (options.out || options.named)
      throw new ArgumentError(
        `call gives what the function returns, without {${options.out ? 'out' : 'named'}}: use run`,
      );
    const numbers = new Map(
      results.flatMap((leaf, i) => (leaf.kind === 'output' ? [i] : [])).map((i, place) => [i, place]),
    );
    const build = (/** @type {any[]} */ arrays) => built(structure.results, numbers, arrays);
    const made = run(this.#arrays(values), { ...options, named: false });
    return typeof made.then === 'function' ? made.then(build) : build(made);
  }

  /**
   * Of a structure of weights or states its arrays, one for each name below the name that is given; nothing if that is
   * the name of one.
   * @param {string} name
   * @param {any} value
   * @returns {Map<string, any> | undefined}
   */
  parts(name, value) {
    const below = this.#below(name);
    if (!below.length) return undefined;
    const found = new Map();
    this.#spread(name, value, new Set(below.map((leaf) => leaf.name)), found, false);
    const missing = below.find((leaf) => !found.has(leaf.name));
    if (missing)
      throw new ArgumentError(`'${this.#manifest.name}': ${described(missing)} is missing in what '${name}' is set to`);
    return found;
  }

  /**
   * The weights and states below a name, in the structure that the function has there, or by what follows in their names
   * where none is known; nothing if the name is that of one, or of none.
   * @param {string} name
   * @param {(name: string) => any} get
   * @returns {any}
   */
  get(name, get) {
    const below = this.#below(name);
    if (!below.length) return undefined;
    const arrays = below.map((leaf) => get(leaf.name));
    const { structure, parameters } = this.#manifest;
    const all = structure && ['dict', structure.names, ...structure.arguments];
    const places = new Map(below.map((leaf, i) => [parameters.indexOf(leaf), i]));
    for (const tree of all ? at(all, name) : []) {
      const own = new Set(leaves(tree));
      if ([...places.keys()].every((number) => own.has(number))) return built(tree, places, arrays);
    }
    return Object.fromEntries(below.map((leaf, i) => [leaf.name.slice(name.length + 1), arrays[i]]));
  }

  /** @param {string} name */
  #below(name) {
    const held = this.#manifest.parameters.filter((leaf) => leaf.kind !== 'input');
    return held.some((leaf) => leaf.name === name) ? [] : held.filter((leaf) => leaf.name.startsWith(`${name}.`));
  }

  /** @param {any[]} values @returns {Map<string, any>} the inputs that there are, by name */
  #found(values) {
    if (values.length !== 1 || !isMapping(values[0])) return this.#byPosition(values);
    const [given] = values;
    try {
      return this.#byName(this.#members('', given, this.#names) ?? []); // all inputs by name
    } catch (error) {
      try {
        return this.#byPosition(values); // or the one argument that there is
      } catch (other) {
        throw this.#manifest.parameters.some(({ name }) =>
          (members(given) ?? []).some(([key]) => name === key || name.startsWith(`${key}.`)),
        )
          ? error
          : other;
      }
    }
  }

  /** @param {any[]} values */
  #byPosition(values) {
    const heads = this.#heads;
    if (values.length > heads.length)
      throw new ArgumentError(
        `'${this.#manifest.name}' takes (${heads.join(', ')}), or an array for each input; got ${values.length}`,
      );
    return this.#byName(values.map((value, i) => [heads[i], value]));
  }

  /** @param {[any, any][]} entries */
  #byName(entries) {
    const found = new Map();
    for (const [key, value] of entries) this.#spread(String(key), value, this.#names, found, true);
    const missing = this.#inputs.find((leaf) => !found.has(leaf.name));
    if (missing) throw new ArgumentError(`'${this.#manifest.name}': the argument ${described(missing)} is missing`);
    return found;
  }

  /**
   * Notes the leaves of a structure by the names that they have among `names`.
   * @param {string} name
   * @param {any} value
   * @param {Set<string>} names
   * @param {Map<string, any>} found
   * @param {boolean} inputs whether these are inputs; or weights and states
   * @param {number} [depth]
   */
  #spread(name, value, names, found, inputs, depth = 0) {
    if (value == null) return;
    if (names.has(name)) {
      if (found.has(name) && !isNothing(value) && !isNothing(found.get(name)))
        throw new ArgumentError(
          `two of the arguments given are called '${name}': give arrays in their order, or use call`,
        );
      // Of two paths with one name, the other leads to no array.
      if (!found.has(name) || isNothing(found.get(name))) found.set(name, value);
      return;
    }
    const children = this.#members(name, value, names);
    if (children && depth > DEEPEST)
      throw new ArgumentError(`'${name.slice(0, 60)}...' is deeper than any structure may be: ${DEEPEST}`);
    if (children)
      for (const [key, child] of children) this.#spread(`${name}.${key}`, child, names, found, inputs, depth + 1);
    else if (!isNothing(value)) throw this.#unknown(name, value, inputs);
  }

  /**
   * The parts of a structure with their keys; nothing if it is none.
   * @param {string} name
   * @param {any} value
   * @param {Set<string>} names
   * @returns {[any, any][] | undefined}
   */
  #members(name, value, names) {
    if (!isObject(value)) return undefined;
    const prefix = name && `${name}.`;
    const asked = () => [
      ...new Set(
        [...names].filter((full) => full.startsWith(prefix)).map((full) => full.slice(prefix.length).split('.', 1)[0]),
      ),
    ];
    const own = members(value);
    if (own) return own;
    const there = asked().filter((key) => key in value);
    return there.length ? there.map((key) => [key, value[key]]) : undefined;
  }

  /**
   * Returns the error for a name that is none of an input, or of a weight or state.
   * @param {string} name
   * @param {any} value
   * @param {boolean} inputs
   */
  #unknown(name, value, inputs) {
    const { name: module, parameters } = this.#manifest;
    const wanted = parameters.filter((leaf) => (leaf.kind === 'input') === inputs).map((leaf) => leaf.name);
    const other = parameters.find((leaf) => leaf.name === name);
    if (other?.kind === 'input')
      return new ArgumentError(`'${name}' is an input of '${module}', and no weight or state: give it to run`);
    if (other)
      return new ArgumentError(
        `'${name}' is a ${other.kind} of '${module}', which stays in the module: exe.set('${name}', ...) sets it`,
      );
    const below = wanted.filter((full) => full.startsWith(`${name}.`));
    if (below.length)
      return new ArgumentError(
        `'${name}' stands for ${some(below)}: give an object or a list of them, not ${kindOf(value)}`,
      );
    return new ArgumentError(
      `'${module}' has no ${inputs ? 'argument' : 'weight or state'} called '${name}' (known: ` +
        `${some(wanted) || 'it has none'})`,
    );
  }

  /** @param {Tree} tree @returns {boolean} */
  #takes(tree) {
    return leaves(tree).some((i) => this.#manifest.parameters[i].kind === 'input');
  }

  /**
   * An array for each input, from the arguments of the function: all in their order, or in one object by name.
   * @param {any[]} values
   * @returns {any[]}
   */
  #arrays(values) {
    const names = [...this.#arguments.keys()];
    const shown = `'${this.#manifest.name}' takes (${names.join(', ')})`;
    const take = (/** @type {Map<string, any>} */ given) => {
      /** @type {Map<number, any>} */
      const found = new Map();
      for (const name of given.keys())
        if (!this.#arguments.has(name)) throw new ArgumentError(`${shown}: there is no '${name}'`);
      for (const [name, tree] of this.#arguments) {
        if (given.get(name) !== undefined) this.#take(tree, given.get(name), name, found);
        else if (this.#takes(tree)) throw new ArgumentError(`${shown}: '${name}' is missing`);
      }
      return [...found].sort(([a], [b]) => a - b).map(([, value]) => value);
    };
    const inOrder = () => {
      if (values.length > names.length) throw new ArgumentError(`${shown}: got ${values.length}`);
      return take(new Map(values.map((value, i) => [names[i], value])));
    };
    const own = values.length === 1 && isMapping(values[0]) ? members(values[0]) : undefined;
    if (!own) return inOrder();
    try {
      return take(new Map(own.map(([key, value]) => [String(key), value])));
    } catch (error) {
      try {
        return inOrder();
      } catch (other) {
        throw own.some(([key]) => names.includes(String(key))) ? error : other;
      }
    }
  }

  /**
   * Notes the leaves of a value by the numbers that they have in its tree.
   * @param {Tree} tree
   * @param {any} value
   * @param {string} name
   * @param {Map<number, any>} found
   */
  #take(tree, value, name, found) {
    if (tree === null) return;
    if (!Array.isArray(tree)) {
      const leaf = this.#manifest.parameters[tree];
      if (leaf.kind === 'input') {
        found.set(tree, oneArray(leaf, value));
      } else if (value != null)
        throw new ArgumentError(
          `${described(leaf)} is a ${leaf.kind}, which stays in the module: exe.set('${leaf.name}', ...) sets it; ` +
            `give null here`,
        );
      return;
    }
    const [keys, children] = parts(tree);
    const own = this.#own(tree, value, name);
    children.forEach((child, i) => {
      const path = `${name}.${keys[i]}`;
      if (own[i] !== undefined) this.#take(child, own[i], path, found);
      else if (this.#takes(child)) {
        const wanted = leaves(child)
          .slice(0, 4)
          .map((number) => described(this.#manifest.parameters[number]));
        throw new ArgumentError(`'${path}' is missing: ${wanted.join(', ')}`);
      }
    });
  }

  /**
   * Returns a value's part for each child of its tree; undefined where it has none.
   * @param {any[]} tree
   * @param {any} value
   * @param {string} name
   * @returns {any[]}
   */
  #own(tree, value, name) {
    const [kind] = tree;
    const [keys] = parts(tree);
    if (value === null && !this.#takes(tree)) return [];
    const keyed = KEYED.includes(kind);
    if (keyed && isMapping(value)) {
      const own = members(value);
      if (!own) return keys.map((key) => value[key]);
      const given = new Map(own.map(([key, item]) => [String(key), item]));
      const known = keys.map(String);
      const extra = [...given].find(([key, item]) => item !== undefined && !known.includes(key));
      if (extra) throw new ArgumentError(`'${name}' has no '${extra[0]}': it has ${some(known) || 'nothing'}`);
      return known.map((key) => given.get(key));
    }
    if (kind === 'dict' || !Array.isArray(value)) {
      throw new ArgumentError(
        `'${name}' must be ` +
          `${keyed ? `an object of ${some(keys.map(String)) || 'nothing'}` : `a list of ${keys.length}`}, not ` +
          `${kindOf(value)}`,
      );
    }
    if (value.length !== keys.length)
      throw new ArgumentError(`'${name}' must be a list of ${keys.length}, got ${value.length}`);
    return value;
  }
}

/**
 * A structure of results. Those that stay in the module are null, as are parts without others.
 * @param {Tree} tree
 * @param {Map<number, number>} numbers the places of results among the arrays
 * @param {any[]} arrays
 * @returns {any}
 */
function built(tree, numbers, arrays) {
  const own = leaves(tree);
  if (own.length && !own.some((i) => numbers.has(i))) return null;
  if (!Array.isArray(tree)) return tree === null ? null : arrays[/** @type {number} */ (numbers.get(tree))];
  const [keys, children] = parts(tree);
  const made = children.map((child) => built(child, numbers, arrays));
  return KEYED.includes(tree[0]) ? Object.fromEntries(made.map((item, i) => [keys[i], item])) : made;
}

/** The error of a module that says nothing of structures. @param {string} name */
export const noStructure = (name) => new ArgumentError(`'${name}' describes no structure: use run`);
