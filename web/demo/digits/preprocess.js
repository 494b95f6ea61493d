// Strokes of a pen to the 8x8 image the model knows, made the way its training data were: a 32x32 bitmap in which the
// digit fills the height and always has about the same amount of ink, then the share of inked cells in each 4x4 block.

export const SIZE = 8;
const FINE = 4; // cells of the bitmap along each side of a pixel
const CELLS = SIZE * FINE;
const WIDTH = 5.5; // pixels that a digit spans at most from left to right
const INK = 0.32 * CELLS * CELLS; // the training images have about as much, whatever the digit
const RADIUS = [0.42, 1.25]; // of the pen, in pixels: thinner is not seen, thicker closes every loop

/** @typedef {{x: number, y: number}} Point */

/**
 * @param {Point[][]} strokes in any unit
 * @returns {Float32Array} 64 values from 0 to 1, row by row
 */
export function toImage(strokes) {
  const image = new Float32Array(SIZE * SIZE);
  const points = strokes.flat();
  if (!points.length) return image;
  const [left, right] = extent(points.map((p) => p.x));
  const [top, bottom] = extent(points.map((p) => p.y));
  let radius = 0.8;
  let distances = new Float32Array(CELLS * CELLS);
  // The pen is inside the box that is filled, so its radius and the scale depend on each other: three rounds settle it.
  for (let round = 0; round < 3; round++) {
    const room = SIZE - 2 * radius;
    const scaleY = room / Math.max(bottom - top, (right - left) / 2, 1e-6);
    // As wide as it was drawn, squeezed only where it would not fit.
    const scaleX = Math.min(scaleY, (WIDTH - 2 * radius) / Math.max(right - left, 1e-6));
    distances = distanceField(strokes, (p) => ({
      x: SIZE / 2 + (p.x - (left + right) / 2) * scaleX,
      y: SIZE / 2 + (p.y - (top + bottom) / 2) * scaleY,
    }));
    radius = Math.min(Math.max(distances.slice().sort()[Math.round(INK)], RADIUS[0]), RADIUS[1]);
  }
  for (let cell = 0; cell < distances.length; cell++) {
    if (distances[cell] > radius) continue;
    const row = Math.floor(cell / CELLS / FINE);
    const column = Math.floor((cell % CELLS) / FINE);
    image[row * SIZE + column] += 1 / (FINE * FINE);
  }
  return image;
}

/** @param {number[]} values */
const extent = (values) =>
  values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);

/**
 * How far the middle of each cell is from the nearest stroke.
 * @param {Point[][]} strokes
 * @param {(point: Point) => Point} place
 */
function distanceField(strokes, place) {
  const squares = new Float32Array(CELLS * CELLS).fill(Infinity);
  for (const stroke of strokes) {
    const path = thin(stroke.map(place));
    for (let i = 0; i < path.length; i++) {
      const a = path[Math.max(i - 1, 0)];
      const b = path[i];
      if (i === 0 && path.length > 1) continue;
      const dx = b.x - a.x;
      const dy = b.y - a.y;
      const inverse = 1 / (dx * dx + dy * dy || 1);
      for (let cell = 0; cell < squares.length; cell++) {
        const px = ((cell % CELLS) + 0.5) / FINE - a.x;
        const py = (Math.floor(cell / CELLS) + 0.5) / FINE - a.y;
        const t = Math.min(Math.max((px * dx + py * dy) * inverse, 0), 1);
        const square = (px - t * dx) ** 2 + (py - t * dy) ** 2;
        if (square < squares[cell]) squares[cell] = square;
      }
    }
  }
  return squares.map(Math.sqrt);
}

/**
 * Leaves out points closer than a cell to the one before: a finger sends hundreds.
 * @param {Point[]} path
 */
function thin(path) {
  const kept = [path[0]];
  for (const point of path) {
    const last = kept[kept.length - 1];
    if (Math.hypot(point.x - last.x, point.y - last.y) >= 1 / FINE) kept.push(point);
  }
  return kept;
}
