// A line chart in SVG of series that grow: their raw points faint, smooth lines through them, the last values marked.

import { element } from './svg.js';

const MARGIN = { left: 44, right: 8, top: 10, bottom: 24 };
// From one number to the next along the horizontal axis.
const STRIDES = [0.5, ...[1, 10, 100, 1000, 10_000].flatMap((unit) => [unit, 2 * unit, 5 * unit])];

/** @typedef {[number, number][]} Points what is measured along the horizontal axis, and the value there, in order */
/** @typedef {{name: string, points: Points}} Series its name is a class */
/**
 * @typedef {object} Form
 * @property {number} low the range at least shown
 * @property {number} high
 * @property {number[]} ticks
 * @property {(value: number) => string} format of a tick
 * @property {number} stride the least along the horizontal axis
 * @property {(at: number) => string} formatAt of a number there
 * @property {boolean} [log] the values' scale is logarithmic
 * @property {number} [smoothing] 0: the points as they are; near 1: very smooth
 */

/** What charts of losses have in common. */
export const LOSSES = {
  low: 0.1,
  high: 3,
  ticks: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3],
  format: String,
  log: true,
};

export class Chart {
  /** @type {Series[]} */
  #series = [];
  /** @type {{value: number, name: string} | undefined} */
  #goal;
  #end = 1;

  /**
   * @param {HTMLElement} figure
   * @param {Form} form
   */
  constructor(figure, form) {
    this.form = form;
    this.smoothing = form.smoothing ?? 0;
    this.svg = element('svg', { role: 'img' });
    figure.append(this.svg);
    new ResizeObserver(() => this.#draw()).observe(this.svg);
  }

  /**
   * @param {Series[]} series the last one on top
   * @param {number} end of the horizontal axis
   * @param {string} description in words
   */
  show(series, end, description) {
    this.#series = series;
    this.#end = end;
    this.svg.setAttribute('aria-label', description);
    this.#draw();
  }

  /**
   * A level to reach.
   * @param {number} value
   * @param {string} name
   */
  goal(value, name) {
    this.#goal = { value, name };
    this.#draw();
  }

  /** Where the smooth line through points ends. @param {Points} points */
  latest(points) {
    return smoothed(points, this.smoothing).at(-1)?.[1];
  }

  #draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const { form, smoothing } = this;
    const end = this.#end;
    const begun = this.#series.filter(({ points }) => points.length);
    const lines = begun.map(({ name, points }) => ({ name, points, smooth: smoothed(points, smoothing) }));
    const values = lines.flatMap(({ smooth }) => smooth.map(([, value]) => value));
    const low = Math.min(form.low, ...values);
    const high = Math.max(form.high, ...values);
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    const scale = form.log ? Math.log : Number;
    /** @param {number} at */
    const x = (at) => MARGIN.left + (at / end) * (right - MARGIN.left);
    /** @param {number} value */
    const y = (value) => bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (bottom - MARGIN.top);
    /**
     * The range is that of smooth lines; raw points beyond it lie on its edge.
     * @type {(name: string, points: Points) => SVGElement}
     */
    const line = (name, points) => {
      const places = points.map(([at, value]) => [x(at), Math.min(bottom, Math.max(MARGIN.top, y(value)))]);
      const path = thinned(places, width).map((place) => place.map((c) => c.toFixed(1)).join());
      return element('polyline', { class: name, points: path.join(' ') });
    };

    const parts = [];
    for (const tick of form.ticks) {
      if (tick < low || tick > high) continue;
      parts.push(element('line', { class: 'grid', x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }));
      parts.push(element('text', { x: MARGIN.left - 7, y: y(tick) + 4, 'text-anchor': 'end' }, form.format(tick)));
    }
    const stride = STRIDES.find((step) => step >= form.stride && end / step <= 6) ?? STRIDES[STRIDES.length - 1];
    for (let at = 0; at <= end; at += stride) {
      parts.push(element('text', { x: x(at), y: height - 4, 'text-anchor': 'middle' }, form.formatAt(at)));
    }
    if (this.#goal) {
      const { value, name } = this.#goal;
      parts.push(element('line', { class: 'goal', x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }));
      // Where the curve is not: it ends near the level.
      parts.push(element('line', { class: 'goal', x1: right - 20, x2: right, y1: bottom - 12, y2: bottom - 12 }));
      parts.push(element('text', { class: 'goal-name', x: right - 26, y: bottom - 8, 'text-anchor': 'end' }, name));
    }
    for (const { name, points, smooth } of lines) {
      const part = element('g', { class: name });
      const [at, value] = smooth[smooth.length - 1];
      if (smoothing) part.append(line('raw', points));
      part.append(line('line', smooth), element('circle', { class: 'now', cx: x(at), cy: y(value), r: 4.5 }));
      parts.push(part);
    }
    this.svg.replaceChildren(...parts);
  }
}

/**
 * Exponential means, that of few points not drawn towards the first one.
 * @param {Points} points
 * @param {number} smoothing
 * @returns {Points}
 */
function smoothed(points, smoothing) {
  let sum = 0;
  let weight = 0;
  return points.map(([at, value]) => {
    sum = smoothing * sum + (1 - smoothing) * value;
    weight = smoothing * weight + 1 - smoothing;
    return [at, sum / weight];
  });
}

/**
 * At most two points a pixel, the last one kept.
 * @param {number[][]} places
 * @param {number} width
 */
function thinned(places, width) {
  const stride = Math.ceil(places.length / (2 * width));
  return places.filter((_, i) => i % stride === 0 || i === places.length - 1);
}
