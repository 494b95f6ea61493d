// Files that a visitor brings: the weights of a GPT-2 in safetensors, with the published names, and its vocabulary.

import { Alphabet } from './alphabet.js';
import { Pairs } from './pairs.js';

/**
 * @typedef {object} Size of a model that the site has a module for
 * @property {string} module its name
 * @property {string} name
 * @property {number} layers
 * @property {number} width
 * @property {number} vocabulary
 * @property {number} context
 */
/**
 * @typedef {{size: Size, weights: Blob, alphabet: Alphabet | undefined}} Brought `alphabet`: of models that know
 *   characters
 */
/** @typedef {{dtype: string, shape: number[], data_offsets: number[]}} Tensor */

/** @type {Size[]} */
export const SIZES = [
  { module: 'write', name: 'the model of this page', layers: 2, width: 128, vocabulary: 128, context: 96 },
  { module: 'tiny', name: 'the small model of examples/gpt2', layers: 4, width: 128, vocabulary: 128, context: 256 },
  { module: 'distil', name: 'DistilGPT-2', layers: 6, width: 768, vocabulary: 50257, context: 1024 },
  { module: 'small', name: 'GPT-2 small', layers: 12, width: 768, vocabulary: 50257, context: 1024 },
];
export const [OWN] = SIZES;

const LONGEST_HEADER = 1e7;
const WANTED =
  'Wanted is the model.safetensors of GPT-2 small or DistilGPT-2 as published, or weights that this page saved.';
const VOCABULARY = 'vocab.json and merges.txt, or tokenizer.json, from where the weights are from';

/**
 * Name and shape of every weight of a size.
 * @param {Size} size
 * @returns {Record<string, number[]>}
 */
export function shapes({ layers, width: w, vocabulary, context }) {
  /** @type {Record<string, number[]>} */
  const found = { 'wte.weight': [vocabulary, w], 'wpe.weight': [context, w], 'ln_f.weight': [w], 'ln_f.bias': [w] };
  /** @type {[string, number[]][]} */
  const parts = [
    ['ln_1', [w]],
    ['attn.c_attn', [w, 3 * w]],
    ['attn.c_proj', [w, w]],
    ['ln_2', [w]],
    ['mlp.c_fc', [w, 4 * w]],
    ['mlp.c_proj', [4 * w, w]],
  ];
  for (let layer = 0; layer < layers; layer++) {
    for (const [part, shape] of parts) {
      found[`h.${layer}.${part}.weight`] = shape;
      found[`h.${layer}.${part}.bias`] = shape.slice(-1);
    }
  }
  return found;
}

/** @param {Blob} part */
const textOf = (part) => part.text();
const shown = (/** @type {unknown[]} */ shape) => `[${shape.join(', ')}]`;

/**
 * What weights are, by the header of their file. Throws an Error that says what is wanted where they are none that can
 * run here.
 * @param {File} file
 * @returns {Promise<Brought>}
 */
export async function readWeights(file) {
  const { name } = file;
  const wrong = (/** @type {string} */ why) => new Error(`${name} ${why} ${WANTED}`);
  const begin = new Uint8Array(await file.slice(0, 8).arrayBuffer());
  if (begin[0] === 0x50 && begin[1] === 0x4b)
    throw wrong('is a file of PyTorch, which holds programs as well and is not opened here.');
  const length = begin.length === 8 ? Number(new DataView(begin.buffer).getBigUint64(0, true)) : Infinity;
  if (!(length <= Math.min(LONGEST_HEADER, file.size - 8))) throw wrong('is no safetensors file, or it is cut short.');
  /** @type {Record<string, any>} */
  let header;
  try {
    header = JSON.parse(await textOf(file.slice(8, 8 + length)));
  } catch {
    throw wrong('is no safetensors file: what it begins with is not JSON.');
  }
  if (header === null || typeof header !== 'object')
    throw wrong('is no safetensors file: what it begins with is no JSON object.');
  const { __metadata__: notes, ...rest } = header;
  /** Some files have a name in front of all others. @type {Map<string, Tensor>} */
  const tensors = new Map(Object.entries(rest).map(([key, tensor]) => [key.replace(/^transformer\./, ''), tensor]));
  const table = tensors.get('wte.weight')?.shape;
  const positions = tensors.get('wpe.weight')?.shape;
  if (!Array.isArray(table) || !Array.isArray(positions)) {
    const names = Object.keys(rest);
    const has = names.length ? `its first names are ${names.slice(0, 3).join(', ')}` : 'it is empty';
    throw wrong(`has no wte.weight and wpe.weight, so it is no GPT-2: ${has}.`);
  }
  const layers = 1 + Math.max(-1, ...[...tensors.keys()].map((key) => Number(/^h\.(\d+)\./.exec(key)?.[1] ?? -1)));
  const size = SIZES.find(
    (s) => s.layers === layers && s.width === table[1] && s.vocabulary === table[0] && s.context === positions[0],
  );
  if (!size) {
    const known = SIZES.map(
      (s) => `${s.name} (${s.layers} layers, ${s.width} wide, ${s.vocabulary} tokens, ${s.context} positions)`,
    ).join('; ');
    throw new Error(
      `${name} is a GPT-2 of ${layers} layers, ${table[1]} wide, with ${table[0]} tokens and ${positions[0]} ` +
        `positions, and the site has no module of that size. It has those of ${known}.`,
    );
  }
  for (const [weight, shape] of Object.entries(shapes(size))) {
    const tensor = tensors.get(weight);
    if (!tensor) throw wrong(`has not all weights of ${size.name}: ${weight} is missing.`);
    if (!Array.isArray(tensor.shape) || shown(tensor.shape) !== shown(shape)) {
      throw wrong(
        `does not fit ${size.name}: its ${weight} is ` +
          `${Array.isArray(tensor.shape) ? shown(tensor.shape) : 'without a shape'}, where that has ${shown(shape)}.`,
      );
    }
    if (!['F32', 'F16', 'BF16'].includes(tensor.dtype))
      throw wrong(`has ${weight} as ${tensor.dtype}; F32, F16 and BF16 can be read.`);
    if (!(tensor.data_offsets?.[1] <= file.size - 8 - length)) throw wrong(`is cut short: it ends before ${weight}.`);
  }
  const said = [...String(notes?.alphabet ?? '')];
  const alphabet =
    size.vocabulary > 128 ? undefined : said.length && said.length <= 128 ? new Alphabet(said) : Alphabet.ascii();
  return { size, weights: written(Object.fromEntries(tensors), [file.slice(8 + length)]), alphabet };
}

/**
 * A safetensors file.
 * @param {Record<string, unknown>} header
 * @param {BlobPart[]} data
 */
function written(header, data) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(Math.ceil(text.length / 8) * 8).fill(0x20);
  padded.set(text);
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(padded.length), true);
  return new Blob([length, padded, ...data]);
}

/**
 * The weights of the page's own model as a file with the published names, and the characters that its tokens stand for.
 * @param {Record<string, Float32Array<ArrayBuffer>>} weights
 * @param {Alphabet} alphabet
 */
export function saved(weights, alphabet) {
  /** @type {Record<string, unknown>} */
  const header = { __metadata__: { alphabet: alphabet.characters.join('') } };
  let end = 0;
  for (const [name, shape] of Object.entries(shapes(OWN))) {
    header[name] = { dtype: 'F32', shape, data_offsets: [end, (end += weights[name].byteLength)] };
  }
  return written(
    header,
    Object.keys(shapes(OWN)).map((name) => weights[name]),
  );
}

/**
 * The vocabulary among files: undefined where there is not all of it. Throws an Error where it is none.
 * @param {File[]} files
 * @param {Size} size
 */
export async function readVocabulary(files, size) {
  const named = (/** @type {string} */ end) => files.find(({ name }) => name.toLowerCase().endsWith(end));
  const [whole, words, merges] = [named('tokenizer.json'), named('vocab.json'), named('merges.txt')];
  let pairs;
  try {
    if (words && merges) {
      pairs = Pairs.from(await textOf(words), await textOf(merges));
    } else if (whole) {
      const { model } = JSON.parse(await textOf(whole));
      // Newer files have each merge as a list of two.
      pairs = new Pairs(
        model.vocab,
        model.merges.map((/** @type {string | string[]} */ merge) => (Array.isArray(merge) ? merge.join(' ') : merge)),
      );
    } else {
      return undefined;
    }
  } catch (error) {
    throw new Error(
      `The vocabulary cannot be read: ${/** @type {Error} */ (error).message}. Wanted are ${VOCABULARY}.`,
      { cause: error },
    );
  }
  if (pairs.size !== size.vocabulary)
    throw new Error(
      `The vocabulary has ${pairs.size} tokens, and ${size.name} has ${size.vocabulary}. Wanted are ${VOCABULARY}.`,
    );
  return pairs;
}

/** What is still needed for a model. @param {Size} size */
export const lacking = (size) => `The weights are those of ${size.name}. Now add ${VOCABULARY}.`;
