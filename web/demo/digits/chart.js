// A line chart in SVG for one series that grows: its raw points faint, a smooth line through them, the last value marked.

const SPACE = 'http://www.w3.org/2000/svg';
const MARGIN = { left: 44, right: 8, top: 10, bottom: 24 };

/**
 * @typedef {object} Axis
 * @property {number} low the range at least shown
 * @property {number} high
 * @property {number[]} ticks
 * @property {(value: number) => string} format
 * @property {boolean} [log]
 */

export class Chart {
  /** @type {[number, number][]} */
  #points = [];
  /** @type {{value: number, name: string} | undefined} */
  #goal;
  #end = 1;

  /**
   * @param {HTMLElement} figure
   * @param {Axis} axis of the values
   * @param {number} smoothing 0: the points as they are; near 1: very smooth
   */
  constructor(figure, axis, smoothing = 0) {
    this.axis = axis;
    this.smoothing = smoothing;
    this.svg = document.createElementNS(SPACE, 'svg');
    this.svg.setAttribute('role', 'img');
    figure.append(this.svg);
    new ResizeObserver(() => this.#draw()).observe(this.svg);
  }

  /**
   * @param {[number, number][]} points epochs and values, in order
   * @param {number} end of the horizontal axis
   * @param {string} description of the curve in words
   */
  show(points, end, description) {
    this.#points = points;
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

  #draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const { axis } = this;
    const scale = axis.log ? Math.log : Number;
    const values = this.#points.map(([, value]) => value);
    const low = Math.min(axis.low, ...values);
    const high = Math.max(axis.high, ...values);
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    /** @param {number} at */
    const x = (at) => MARGIN.left + (at / this.#end) * (right - MARGIN.left);
    /** @param {number} value */
    const y = (value) => bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (bottom - MARGIN.top);

    const parts = [];
    for (const tick of axis.ticks) {
      if (tick < low || tick > high) continue;
      parts.push(element('line', { class: 'grid', x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }));
      parts.push(element('text', { x: MARGIN.left - 7, y: y(tick) + 4, 'text-anchor': 'end' }, axis.format(tick)));
    }
    const stride = [1, 2, 5, 10, 20].find((step) => this.#end / step <= 6) ?? 20;
    for (let at = 0; at <= this.#end; at += stride) {
      parts.push(element('text', { x: x(at), y: height - 4, 'text-anchor': 'middle' }, at ? String(at) : 'epoch 0'));
    }
    if (this.#goal) {
      const { value, name } = this.#goal;
      parts.push(element('line', { class: 'goal', x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }));
      // Where the curve is not: it ends near the level.
      parts.push(element('line', { class: 'goal', x1: right - 20, x2: right, y1: bottom - 12, y2: bottom - 12 }));
      parts.push(element('text', { class: 'goal-name', x: right - 26, y: bottom - 8, 'text-anchor': 'end' }, name));
    }
    if (this.#points.length) {
      const smooth = smoothed(this.#points, this.smoothing).map(([at, value]) => [x(at), y(value)]);
      if (this.smoothing) parts.push(line('raw', thinned(this.#points.map(([at, value]) => [x(at), y(value)]), width)));
      parts.push(line('line', thinned(smooth, width)));
      const [cx, cy] = smooth[smooth.length - 1];
      parts.push(element('circle', { class: 'now', cx, cy, r: 4.5 }));
    }
    this.svg.replaceChildren(...parts);
  }
}

/**
 * Exponential means, that of few points not drawn towards the first one.
 * @param {[number, number][]} points
 * @param {number} smoothing
 * @returns {[number, number][]}
 */
export function smoothed(points, smoothing) {
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
 * @param {number[][]} points
 * @param {number} width
 */
function thinned(points, width) {
  const stride = Math.ceil(points.length / (2 * width));
  return points.filter((_, i) => i % stride === 0 || i === points.length - 1);
}

/** @type {(name: string, points: number[][]) => SVGElement} */
const line = (name, points) => element('polyline', { class: name, points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ') });

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {string} [text]
 */
export function element(name, attributes, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}
