// Two losses over time in one chart, on a logarithmic scale: raw points faint, smooth lines through them, the last values marked.

import { element, smoothed } from '../digits/chart.js';

const MARGIN = { left: 44, right: 8, top: 10, bottom: 24 };
const TICKS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3];
const SMOOTHING = 0.8;
const RANGE = { low: 0.1, high: 3, end: 2 }; // at least shown

/** @typedef {{name: string, points: [number, number][]}} Series seconds and values */

export class Curves {
  /** @type {Series[]} */
  #series = [];

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.svg = element('svg', { role: 'img' });
    figure.append(this.svg);
    new ResizeObserver(() => this.#draw()).observe(this.svg);
  }

  /**
   * @param {Series[]} series the last one on top; their names are classes
   * @param {string} description in words
   */
  show(series, description) {
    this.#series = series;
    this.svg.setAttribute('aria-label', description);
    this.#draw();
  }

  #draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const lines = this.#series.filter(({ points }) => points.length).map(({ name, points }) => ({ name, points, smooth: smoothed(points, SMOOTHING) }));
    const values = lines.flatMap(({ smooth }) => smooth.map(([, value]) => value));
    const low = Math.min(RANGE.low, ...values);
    const high = Math.max(RANGE.high, ...values);
    const end = Math.max(RANGE.end, ...lines.map(({ points }) => points[points.length - 1][0]));
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    /** @param {number} at */
    const x = (at) => MARGIN.left + (at / end) * (right - MARGIN.left);
    /** @param {number} value */
    const y = (value) => Math.min(bottom, bottom - (Math.log(value / low) / Math.log(high / low)) * (bottom - MARGIN.top));

    const parts = [];
    for (const tick of TICKS) {
      if (tick < low || tick > high) continue;
      parts.push(element('line', { class: 'grid', x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }));
      parts.push(element('text', { x: MARGIN.left - 7, y: y(tick) + 4, 'text-anchor': 'end' }, String(tick)));
    }
    const stride = [0.5, 1, 2, 5, 10, 20, 50, 100].find((step) => end / step <= 6) ?? 200;
    for (let at = 0; at <= end; at += stride) {
      parts.push(element('text', { x: x(at), y: height - 4, 'text-anchor': 'middle' }, `${at} s`));
    }
    for (const { name, points, smooth } of lines) {
      const part = element('g', { class: name });
      const [at, value] = smooth[smooth.length - 1];
      part.append(line('raw', points, x, y), line('line', smooth, x, y), element('circle', { class: 'now', cx: x(at), cy: y(value), r: 4.5 }));
      parts.push(part);
    }
    this.svg.replaceChildren(...parts);
  }
}

/** The loss of late. @param {[number, number][]} points */
export const latest = (points) => smoothed(points, SMOOTHING).at(-1)?.[1];

/**
 * @param {string} name
 * @param {[number, number][]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
const line = (name, points, x, y) => element('polyline', { class: name, points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ') });
