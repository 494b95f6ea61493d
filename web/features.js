// What this engine can run, found by validating modules of one function that use one instruction of the feature.

/**
 * A module whose only function, () -> v128, has this body.
 * @param {number[]} body
 */
function probe(body) {
  const code = [0, ...body, 0x0b];
  return new Uint8Array([
    0,
    0x61,
    0x73,
    0x6d,
    1,
    0,
    0,
    0, // magic and version
    1,
    5,
    1,
    0x60,
    0,
    1,
    0x7b, // one type: () -> v128
    3,
    2,
    1,
    0, // one function of that type
    10,
    code.length + 2,
    1,
    code.length,
    ...code,
  ]);
}

const zero = [0x41, 0, 0xfd, 0x0f]; // i32.const 0; i8x16.splat

const PROBES = {
  simd128: probe([...zero, 0xfd, 0x62]), // i8x16.popcnt
  'relaxed-simd': probe([...zero, ...zero, ...zero, 0xfd, 0x85, 2]), // f32x4.relaxed_madd
  threads: probe([0xfe, 3, 0, ...zero]), // atomic.fence
};

/** @typedef {keyof typeof PROBES} Feature */

/** @type {Record<string, boolean>} */
const known = {};

/**
 * Returns true if this engine has a WebAssembly feature; false for unknown names.
 * @param {string} feature
 * @returns {boolean}
 */
export const supports = (feature) =>
  Object.hasOwn(PROBES, feature) && (known[feature] ??= WebAssembly.validate(PROBES[/** @type {Feature} */ (feature)]));
