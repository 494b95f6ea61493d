// The images of images.bin, which examples/digits/page.py writes: grey values from 0 to 16, first those to train on,
// then those held out.

/** @typedef {import('../../xla_wasm.js').Executable} Executable */

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
  if (bytes.length !== COUNT * (PIXELS + 1))
    throw new Error(`${response.url} has ${bytes.length} bytes, not those of ${COUNT} images`);
  return { pixels: bytes.subarray(0, COUNT * PIXELS), labels: bytes.subarray(COUNT * PIXELS) };
}

/** An image as the model takes it: values from 0 to 1. @param {Uint8Array} pixels */
export const scaled = (pixels) => Float32Array.from(pixels, (grey) => grey / 16);

/** @typedef {{label: number, said: number, pixels: Uint8Array}} Miss an image that is taken for another digit */

/**
 * How well a model reads the images that were held out.
 * @param {Images} images
 * @param {Executable} model
 */
export function judge({ pixels, labels }, model) {
  /** @type {Miss[]} */
  const misses = [];
  for (let index = TRAINING; index < COUNT; index++) {
    const image = pixels.subarray(index * PIXELS, (index + 1) * PIXELS);
    const [logits] = model.run(scaled(image));
    const said = logits.indexOf(Math.max(...logits));
    if (said !== labels[index]) misses.push({ label: labels[index], said, pixels: image.slice() });
  }
  return { accuracy: 1 - misses.length / HELD_OUT, misses };
}
