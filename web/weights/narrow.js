// Weights that a file has in fewer bits than the module wants: f16, bf16, or whole numbers of 8 bits with their scales.

/** @typedef {import('../manifest.js').Leaf} Leaf */

/** Bytes of an element of the types that a file may have for weights of f32. @type {Record<string, number>} */
export const NARROW = Object.assign(Object.create(null), { s8: 1, f16: 2, bf16: 2 });

/**
 * The scales of a weight of 8 bits: an array of as many dimensions, each of which is the weight's or 1.
 * @typedef {{shape: number[], numbers: Float32Array}} Scales
 */

/**
 * Puts numbers into memory as f32.
 * @param {string} type of `NARROW`
 * @param {Uint8Array} bytes
 * @param {Uint8Array} target
 * @param {number} first which element of the weight the first of them is
 * @param {number[]} dimensions of the weight
 * @param {Scales} [scales] of s8
 */
export function widen(type, bytes, target, first, dimensions, scales) {
  const floats = new Float32Array(target.buffer, target.byteOffset, target.length / 4);
  if (type === 's8') scaled(new Int8Array(bytes.buffer), floats, first, dimensions, /** @type {Scales} */ (scales));
  else floated(type, new Uint16Array(bytes.buffer), new Uint32Array(target.buffer, target.byteOffset, floats.length));
}

/**
 * The bits of every f16 as f32: to look them up takes half the time of computing them. @type {Uint32Array | undefined}
 */
let halves;

function widenedHalves() {
  const words = new Uint32Array(1 << 16);
  const floats = new Float32Array(words.buffer);
  for (let word = 0; word < words.length; word++) {
    const magnitude = word & 0x7fff;
    words[word] = magnitude << 13;
    floats[word] *= 2 ** 112; // the difference of the exponents' zeros
    if (magnitude >= 0x7c00) words[word] |= 0x7f800000;
    words[word] |= (word & 0x8000) << 16;
  }
  return words;
}

/**
 * @param {string} type f16 or bf16
 * @param {Uint16Array} bits
 * @param {Uint32Array} words
 */
function floated(type, bits, words) {
  if (type === 'bf16') {
    for (let i = 0; i < bits.length; i++) words[i] = bits[i] << 16;
    return;
  }
  const table = (halves ??= widenedHalves());
  for (let i = 0; i < bits.length; i++) words[i] = table[bits[i]];
}

/**
 * @param {Int8Array} numbers
 * @param {Float32Array} floats
 * @param {number} first
 * @param {number[]} dimensions
 * @param {Scales} scales
 */
function scaled(numbers, floats, first, dimensions, { shape, numbers: scale }) {
  const row = dimensions.at(-1) ?? 1;
  const along = shape.at(-1) === 1 ? 0 : 1;
  /** Where the scales of a row begin. @param {number} index */
  const begin = (index) => {
    let at = 0;
    let stride = shape.at(-1) ?? 1;
    for (let d = dimensions.length - 2; d >= 0; d--) {
      if (shape[d] !== 1) at += (index % dimensions[d]) * stride;
      index = Math.floor(index / dimensions[d]);
      stride *= shape[d];
    }
    return at;
  };
  for (let i = 0; i < numbers.length; ) {
    const from = (first + i) % row;
    const at = begin(Math.floor((first + i) / row));
    for (let k = from; k < row && i < numbers.length; k++, i++) floats[i] = numbers[i] * scale[at + k * along];
  }
}
