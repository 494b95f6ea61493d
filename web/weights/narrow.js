// Weights that a file has in fewer bits than the module wants: f16, bf16, or whole numbers of 8 bits with their scales.

/** @typedef {import('../manifest.js').Leaf} Leaf */

/** Bytes of an element of the types that a file may have for weights of f32. @type {Record<string, number>} */
export const NARROW = Object.assign(Object.create(null), { s8: 1, f16: 2, bf16: 2 });

/** Numbers that are widened at once. */
const WIDENED = 1 << 16;

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
  const floats = new Float32Array(Math.min(target.length / 4, WIDENED));
  const chunk =
    type === 's8'
      ? scaled(new Int8Array(bytes.buffer), floats, first, dimensions, /** @type {Scales} */ (scales))
      : floated(type, new Uint16Array(bytes.buffer), floats);
  for (let start = 0; start < target.length / 4; start += WIDENED) {
    const count = Math.min(target.length / 4 - start, WIDENED);
    chunk(start, count);
    target.set(new Uint8Array(floats.buffer, 0, count * 4), start * 4);
  }
}

/**
 * @param {string} type f16 or bf16
 * @param {Uint16Array} bits
 * @param {Float32Array} floats
 */
function floated(type, bits, floats) {
  const words = new Uint32Array(floats.buffer);
  return (/** @type {number} */ start, /** @type {number} */ count) => {
    for (let i = 0; i < count; i++) {
      const word = bits[start + i];
      if (type === 'bf16') {
        words[i] = word << 16;
        continue;
      }
      const magnitude = word & 0x7fff;
      words[i] = magnitude << 13;
      floats[i] *= 2 ** 112; // the difference of the exponents' zeros
      if (magnitude >= 0x7c00) words[i] |= 0x7f800000;
      words[i] |= (word & 0x8000) << 16;
    }
  };
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
  return (/** @type {number} */ start, /** @type {number} */ count) => {
    for (let i = 0; i < count; ) {
      const place = first + start + i;
      const from = place % row;
      const at = begin(Math.floor(place / row));
      for (let k = from; k < row && i < count; k++, i++) floats[i] = numbers[start + i] * scale[at + k * along];
    }
  };
}
