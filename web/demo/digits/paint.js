// Draws images of 8x8 pixels, in the colour that the canvas has as text.

/** Shows an image on a canvas of 8x8. @param {HTMLCanvasElement} canvas @param {Float32Array} image */
export function drawImage(canvas, image) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.clearRect(0, 0, 8, 8);
  context.fillStyle = getComputedStyle(canvas).color;
  paint(context, image, 0, 1);
}

/**
 * An image as squares in the context's fill colour.
 * @param {CanvasRenderingContext2D} context
 * @param {Float32Array} image
 * @param {number} at
 * @param {number} cell
 */
export function paint(context, image, at, cell) {
  for (let i = 0; i < image.length; i++) {
    context.globalAlpha = image[i];
    const x = Math.round(at + (i % 8) * cell);
    const y = Math.round(at + Math.floor(i / 8) * cell);
    context.fillRect(
      x,
      y,
      Math.round(at + ((i % 8) + 1) * cell) - x,
      Math.round(at + (Math.floor(i / 8) + 1) * cell) - y,
    );
  }
  context.globalAlpha = 1;
}
