// The drawing surface: pointer events to strokes, strokes to a smooth line. Coordinates are fractions of its side, so
// it may be resized.

import { paint } from './paint.js';

/** @typedef {import('./preprocess.js').Point} Point */

const PEN = 0.066; // of the side
const SMOOTH = 0.06;

/** @type {(a: Point, b: Point) => number} */
const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

export class Pad {
  /** @type {Point[][]} */
  strokes = [];
  /** @type {Float32Array | null} */
  #picture = null;
  /** @type {Map<number, Point[]>} one stroke for each pointer that is down */
  #drawing = new Map();

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => void} changed called for every change a person makes
   */
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    canvas.addEventListener('pointerdown', (event) => this.#begin(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    for (const end of ['pointerup', 'pointercancel'])
      canvas.addEventListener(end, (event) => this.#drawing.delete(/** @type {PointerEvent} */ (event).pointerId));
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  clear() {
    this.strokes = [];
    this.#picture = null;
    this.#drawing.clear();
    this.draw();
  }

  /** Shows an image in place of strokes. @param {Float32Array} picture */
  show(picture) {
    this.clear();
    this.#picture = picture;
    this.draw();
  }

  /** @param {PointerEvent} event */
  #begin(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    if (this.#picture) this.clear();
    const stroke = [this.#point(event)];
    this.strokes.push(stroke);
    this.#drawing.set(event.pointerId, stroke);
    this.draw();
    this.changed();
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const stroke = this.#drawing.get(event.pointerId);
    if (!stroke) return;
    // A fast hand moves several times between two frames.
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length ? events : [event]) stroke.push(this.#point(each));
    this.draw();
    this.changed();
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  }

  draw() {
    const { canvas } = this;
    const side = Math.round(canvas.clientWidth * devicePixelRatio);
    if (canvas.width !== side || canvas.height !== side) canvas.width = canvas.height = side;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    context.clearRect(0, 0, side, side);
    const color = getComputedStyle(canvas).color;
    context.fillStyle = context.strokeStyle = color;
    context.lineCap = context.lineJoin = 'round';
    context.lineWidth = PEN * side;
    if (this.#picture) paint(context, this.#picture, side * 0.13, (side * 0.74) / 8);
    for (const stroke of this.strokes) {
      context.beginPath();
      context.moveTo(stroke[0].x * side, stroke[0].y * side);
      // Through the middles of short segments, with the points as controls: no corners where the hand made none.
      for (let i = 1; i < stroke.length - 1; i++) {
        const [before, a, b] = stroke.slice(i - 1, i + 2);
        if (Math.max(distance(before, a), distance(a, b)) > SMOOTH) context.lineTo(a.x * side, a.y * side);
        else context.quadraticCurveTo(a.x * side, a.y * side, ((a.x + b.x) / 2) * side, ((a.y + b.y) / 2) * side);
      }
      const last = stroke[stroke.length - 1];
      context.lineTo(last.x * side, last.y * side);
      context.stroke();
    }
  }
}
