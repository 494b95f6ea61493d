// The picture of a module: a box for each instruction, coloured by family, one group for each computation, to zoom and
// to pan.

import { element } from '../svg.js';
import { layout } from './layout.js';

/**
 * @typedef {object} Node
 * @property {string} name
 * @property {string} opcode
 * @property {string} family
 * @property {string} shape
 * @property {string} computation
 * @property {boolean} entry
 * @property {boolean} root
 * @property {number[]} operands
 * @property {string[]} called
 * @property {number[]} origin
 */

const HEIGHT = 40;
const LAYER_GAP = 34;
const MOST = 1500; // boxes; laying out more takes seconds and shows nothing

const shorten = (/** @type {string} */ text, /** @type {number} */ most) =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

export class Graph {
  /** @type {{group: Element, node: Node}[]} */
  #boxes = [];
  #view = { x: 0, y: 0, width: 100, height: 100 };
  #whole = { x: 0, y: 0, width: 100, height: 100 };

  /**
   * @param {HTMLElement} root
   * @param {import('./lines.js').Selection} selection
   */
  constructor(root, selection) {
    this.root = root;
    this.selection = selection;
    this.svg = /** @type {SVGSVGElement} */ (element('svg', { tabindex: 0, role: 'application' }));
    this.svg.ariaLabel =
      'Graph of the module. Arrow keys move it, plus and minus zoom, Tab goes through the instructions.';
    root.append(this.svg);
    selection.addEventListener('change', () => this.#mark());
    this.svg.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.0015), event);
      },
      { passive: false },
    );
    this.#panning();
    this.svg.addEventListener('keydown', (event) => this.#key(event));
    new ResizeObserver(() => this.#apply()).observe(root);
  }

  /**
   * @param {Node[]} nodes
   * @param {(node: Node) => string} badge what stands in a corner of a box
   */
  show(nodes, badge) {
    this.#boxes = [];
    this.svg.replaceChildren();
    if (nodes.length > MOST) {
      this.svg.append(
        element('text', { x: 20, y: 40, class: 'n-title' }, `${nodes.length} instructions are too many for a picture.`),
      );
      this.#whole = { x: 0, y: 0, width: 420, height: 80 };
      return this.fit();
    }
    const names = [...new Set(nodes.map(({ computation }) => computation))];
    const entry = nodes.find((node) => node.entry)?.computation;
    names.sort((a, b) => Number(b === entry) - Number(a === entry));
    let left = 0;
    let top = 0;
    let column = 0;
    let height = 0;
    for (const name of names) {
      const made = this.#computation(name, nodes, badge);
      // The first is the entry; the others stand beside it, in columns no longer than it.
      if (top && top + made.height > Math.max(height, 700)) {
        left += column + 40;
        top = column = 0;
      }
      made.group.setAttribute('transform', `translate(${left} ${top})`);
      this.svg.append(made.group);
      column = Math.max(column, made.width);
      top += made.height + 40;
      if (!height) {
        height = made.height;
        left = made.width + 40;
        top = column = 0;
      }
    }
    const box = nodes.length ? this.svg.getBBox() : { x: 0, y: 0, width: 400, height: 300 };
    this.#whole = { x: box.x - 16, y: box.y - 16, width: box.width + 32, height: box.height + 32 };
    this.fit();
    this.#mark();
  }

  /**
   * @param {string} name
   * @param {Node[]} all
   * @param {(node: Node) => string} badge
   */
  #computation(name, all, badge) {
    const nodes = all.map((node, id) => ({ node, id })).filter(({ node }) => node.computation === name);
    const label = (/** @type {Node} */ node) => shorten(`${node.name} · ${node.shape}`, 34);
    const widthOf = (/** @type {Node} */ node) => Math.max(57 + 7.4 * node.opcode.length, 23 + 6 * label(node).length);
    const placed = layout(
      nodes.map(({ node, id }) => ({ id, from: node.operands, width: widthOf(node) })),
      HEIGHT,
      LAYER_GAP,
    );
    const group = element('g', { class: 'computation' });
    const width = Math.max(placed.width, 8 * name.length) + 32;
    const height = placed.height + 60;
    group.append(element('rect', { class: 'frame', width, height, rx: 16 }));
    group.append(element('text', { class: 'n-title', x: 16, y: 25 }, nodes[0].node.entry ? `${name} (entry)` : name));
    const inner = element('g', { transform: `translate(16 ${40})` });
    for (const { points } of placed.edges) inner.append(element('path', { class: 'edge', d: curve(points) }));
    for (const { node, id } of nodes) {
      const { x, y, width: w } = /** @type {{x: number, y: number, width: number}} */ (placed.places.get(id));
      const box = element('g', {
        class: `node f-${node.family}`,
        transform: `translate(${x - w / 2} ${y})`,
        tabindex: 0,
        role: 'button',
      });
      box.setAttribute('data-name', node.name);
      box.append(element('rect', { width: w, height: HEIGHT, rx: 9 }));
      box.append(element('text', { class: 'n-op', x: 10, y: 17 }, node.opcode + (node.root ? ' ⏎' : '')));
      box.append(element('text', { class: 'n-name', x: 10, y: 32 }, label(node)));
      if (badge(node))
        box.append(element('text', { class: 'n-kernel', x: w - 8, y: 16, 'text-anchor': 'end' }, badge(node)));
      // What is read out begins with what is seen.
      box.ariaLabel =
        `${box.textContent}, ${node.opcode} ${node.name}, ` +
        `${node.shape}${badge(node) ? `, kernel ${badge(node)}` : ''}`;
      const calls = node.called.length ? `, calls ${node.called.join(', ')}` : '';
      box.append(element('title', {}, `${node.name} = ${node.shape} ${node.opcode}${calls}`));
      box.addEventListener('pointerenter', () => this.selection.set('hover', node.origin, this));
      box.addEventListener('pointerleave', () => this.selection.set('hover', []));
      box.addEventListener('click', () => this.selection.toggle(node.origin, this));
      inner.append(box);
      this.#boxes.push({ group: box, node });
    }
    group.append(inner);
    return { group, width, height };
  }

  fit() {
    this.#view = { ...this.#whole };
    // A long graph is readable from its top; the rest is a drag away.
    const scale = Math.min(this.root.clientWidth / this.#view.width, this.root.clientHeight / this.#view.height);
    if (scale < 0.45 && this.root.clientWidth) {
      const readable = Math.max(0.45, Math.min(0.8, this.root.clientWidth / this.#view.width));
      this.#view.width = this.root.clientWidth / readable;
      this.#view.height = this.root.clientHeight / readable;
      this.#view.x = this.#whole.x;
    }
    this.#apply();
  }

  /**
   * @param {number} factor above 1: further away
   * @param {{clientX: number, clientY: number}} [at] what stays in place
   */
  zoom(factor, at) {
    if (!this.root.clientWidth) return;
    const box = this.svg.getBoundingClientRect();
    const fx = at ? (at.clientX - box.left) / box.width : 0.5;
    const fy = at ? (at.clientY - box.top) / box.height : 0.5;
    const shown = this.#shown();
    const width = Math.min(Math.max(shown.width * factor, 120), this.#whole.width * 6);
    const height = (width * shown.height) / shown.width;
    this.#view = { x: shown.x + (shown.width - width) * fx, y: shown.y + (shown.height - height) * fy, width, height };
    this.#apply();
  }

  /** What is in sight: the view, widened to the form of the element. */
  #shown() {
    const { x, y, width, height } = this.#view;
    const form = (this.root.clientWidth || 1) / (this.root.clientHeight || 1);
    const w = Math.max(width, height * form);
    return { x: x - (w - width) / 2, y, width: w, height: w / form };
  }

  #apply() {
    const { x, y, width, height } = this.#shown();
    this.svg.setAttribute('viewBox', `${x} ${y} ${width} ${height}`);
  }

  /** One finger or the mouse moves it, two fingers zoom. */
  #panning() {
    /** @type {Map<number, PointerEvent>} */
    const down = new Map();
    this.svg.addEventListener('pointerdown', (event) => down.set(event.pointerId, event));
    this.svg.addEventListener('pointermove', (event) => {
      const before = down.get(event.pointerId);
      if (!before || !this.root.clientWidth) return;
      const others = [...down.values()].filter((other) => other.pointerId !== event.pointerId);
      const far = (/** @type {PointerEvent} */ a) =>
        Math.hypot(a.clientX - others[0].clientX, a.clientY - others[0].clientY);
      if (others.length) this.zoom(Math.max(far(before), 1) / Math.max(far(event), 1), event);
      else {
        const shown = this.#shown();
        const scale = shown.width / this.root.clientWidth;
        if (Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) > 2)
          this.svg.setPointerCapture(event.pointerId);
        const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
        this.#view = { ...shown, x: shown.x - dx * scale, y: shown.y - dy * scale };
        this.#apply();
      }
      down.set(event.pointerId, event);
    });
    for (const kind of ['pointerup', 'pointercancel', 'pointerleave']) {
      this.svg.addEventListener(kind, (event) => down.delete(/** @type {PointerEvent} */ (event).pointerId));
    }
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const shown = this.#shown();
    const step = shown.width / 10;
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (move) {
      this.#view = { ...shown, x: shown.x + move[0] * step, y: shown.y + move[1] * step };
      this.#apply();
    } else if (event.key === '+' || event.key === '=') this.zoom(0.8);
    else if (event.key === '-') this.zoom(1.25);
    else if (event.key === '0') this.fit();
    else if (event.key === 'Enter' || event.key === ' ') {
      const box = this.#boxes.find(({ group }) => group === document.activeElement);
      if (!box) return;
      this.selection.toggle(box.node.origin, this);
    } else return;
    event.preventDefault();
  }

  #mark() {
    const marked = new Set();
    for (const { group, node } of this.#boxes) {
      const mark = this.selection.classOf(node.origin);
      group.classList.toggle('chosen', mark === 'chosen');
      group.classList.toggle('hover', mark === 'hover');
      if (mark) marked.add(node);
    }
    this.svg.classList.toggle('some', marked.size > 0);
    const chosen = this.selection.get('chosen');
    if (chosen.size && this.selection.from !== this) this.#reveal(chosen);
  }

  /** Moves the first chosen box into sight. @param {Set<number>} chosen */
  #reveal(chosen) {
    const found = this.#boxes.find(({ node }) => node.origin.some((id) => chosen.has(id)));
    // While the page is being laid out anew there may be nothing to see.
    if (!found || !this.root.clientWidth) return;
    const box = found.group.getBoundingClientRect();
    const frame = this.svg.getBoundingClientRect();
    if (box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom)
      return;
    const shown = this.#shown();
    const scale = shown.width / frame.width;
    this.#view = {
      ...shown,
      x: shown.x + ((box.left + box.right - frame.left - frame.right) / 2) * scale,
      y: shown.y + ((box.top + box.bottom - frame.top - frame.bottom) / 2) * scale,
    };
    this.#apply();
  }
}

/**
 * A smooth line through the ends and the bends of an edge.
 * @param {[number, number][]} points
 */
function curve(points) {
  let path = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const middle = (y0 + y1) / 2;
    path +=
      `C${x0.toFixed(1)} ${middle.toFixed(1)} ${x1.toFixed(1)} ${middle.toFixed(1)} ${x1.toFixed(1)} ` +
      `${y1.toFixed(1)}`;
  }
  return path;
}
