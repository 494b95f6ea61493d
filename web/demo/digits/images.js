// The images of images.bin, which examples/digits/page.py writes: grey values from 0 to 16, first those to train on, then those held out.

export const TRAINING = 1437;
export const HELD_OUT = 360;
export const PIXELS = 64;
const COUNT = TRAINING + HELD_OUT;

/**
 * @typedef {object} Images
 * @property {Uint8Array} pixels 64 of each image, row by row
 * @property {Uint8Array} labels
 */

/**
 * @param {string | URL} url
 * @returns {Promise<Images>}
 */
export async function loadImages(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`cannot fetch ${response.url}: HTTP ${response.status}`);
  let bytes = new Uint8Array(await response.arrayBuffer());
  // Some servers say that the file is compressed; then the browser has undone it already.
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  if (bytes.length !== COUNT * (PIXELS + 1)) throw new Error(`${response.url} has ${bytes.length} bytes, not those of ${COUNT} images`);
  return { pixels: bytes.subarray(0, COUNT * PIXELS), labels: bytes.subarray(COUNT * PIXELS) };
}

/**
 * One image as the model takes it: values from 0 to 1.
 * @param {Uint8Array} pixels
 * @param {number} index
 */
export const imageAt = (pixels, index) => Float32Array.from(pixels.subarray(index * PIXELS, (index + 1) * PIXELS), (grey) => grey / 16);
