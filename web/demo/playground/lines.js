// Text with linked lines: only those in sight are in the document, so a million of them cost nothing.

import { coloured } from '../shared.js';

export const LINE = 18; // pixels; text.css sets the same

/**
 * Instructions that are pointed at and that are chosen, in all views at once.
 * @typedef {'hover' | 'chosen'} Mark
 */
export class Selection extends EventTarget {
  /** @type {Record<Mark, Set<number>>} */
  #sets = { hover: new Set(), chosen: new Set() };
  /** What made the last change, so that it need not scroll to itself. @type {unknown} */
  from = null;

  /** @param {Mark} mark */
  get(mark) {
    return this.#sets[mark];
  }

  /**
   * @param {Mark} mark
   * @param {Iterable<number>} ids
   * @param {unknown} [from]
   */
  set(mark, ids, from = null) {
    const set = new Set(ids);
    const old = this.#sets[mark];
    if (set.size === old.size && [...set].every((id) => old.has(id))) return;
    this.#sets[mark] = set;
    this.from = from;
    this.dispatchEvent(new CustomEvent('change', { detail: mark }));
  }

  /**
   * Chooses these, or nothing if they are chosen already.
   * @param {Iterable<number>} ids
   * @param {unknown} [from]
   */
  toggle(ids, from) {
    const set = new Set(ids);
    const old = this.#sets.chosen;
    this.set('chosen', set.size === old.size && [...set].every((id) => old.has(id)) ? [] : set, from);
  }

  /** @param {Iterable<number>} ids @returns {string} a class for what came from these */
  classOf(ids) {
    let found = '';
    for (const id of ids) {
      if (this.#sets.chosen.has(id)) return 'chosen';
      if (this.#sets.hover.has(id)) found = 'hover';
    }
    return found;
  }
}

/** @typedef {[number, number, number[]]} Range first and last line, and the instructions they came from */

/** What words may look like. */
const LOOKS = {
  note: /\/\/.*|;;.*|#.*/,
  string: /"[^"]*"/,
  type: /\b(?:[suf]\d+|pred|bf16|c64|c128|f8e\w+|i32|i64|v128)(?:x\d+)?(?:\[[\d,<=]*\])?/,
  word: /\b(?:ENTRY|ROOT|HloModule|kernel|loop|func|module)\b/,
  name: /\$[\w.]+/,
  number: /(?<![\w.%])-?\d[\w.+-]*/,
};
const WORDS = new RegExp(
  Object.entries(LOOKS)
    .map(([name, { source }]) => `(?<${name}>${source})`)
    .join('|'),
  'g',
);
const LONGEST = 2000;

/** The lines in sight of a longer text, with their numbers and marks. */
export class Lines {
  /** @type {string[]} */
  #lines = [];
  /** @type {Map<number, number[]>} */
  #ids = new Map();
  /** @type {Range[]} */
  ranges = [];
  /** @type {number} the line that an error is about */
  bad = -1;

  /**
   * @param {HTMLElement} window where the lines go
   * @param {Selection} selection
   */
  constructor(window, selection) {
    this.window = window;
    this.selection = selection;
  }

  get count() {
    return this.#lines.length;
  }

  get longest() {
    return Math.min(
      LONGEST,
      this.#lines.reduce((most, line) => Math.max(most, line.length), 0),
    );
  }

  /**
   * @param {string} text
   * @param {Range[]} ranges
   */
  set(text, ranges) {
    this.#lines = text ? text.split('\n') : [];
    this.link(ranges);
  }

  /** @param {Range[]} ranges */
  link(ranges) {
    this.ranges = ranges;
    this.#ids = new Map();
    for (const [first, last, ids] of ranges) for (let line = first; line <= last; line++) this.#ids.set(line, ids);
  }

  /** @param {number} line */
  idsOf(line) {
    return this.#ids.get(line) ?? [];
  }

  /** The first line that came from one of these. @param {Set<number>} ids */
  find(ids) {
    return this.ranges.find((range) => range[2].some((id) => ids.has(id)))?.[0] ?? -1;
  }

  /**
   * Shows the lines from one on.
   * @param {number} first
   * @param {number} count
   */
  show(first, count) {
    first = Math.max(0, first);
    const made = [];
    for (let line = first; line < Math.min(this.#lines.length, first + count); line++) {
      const row = document.createElement('div');
      const ids = this.idsOf(line);
      row.className =
        `line ` + `${this.selection.classOf(ids)}${ids.length ? ' linked' : ''}${line === this.bad ? ' bad' : ''}`;
      row.dataset.line = String(line);
      const number = document.createElement('span');
      number.className = 'count';
      number.textContent = String(line + 1);
      const text = this.#lines[line];
      row.append(number, ...coloured(text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text, WORDS));
      made.push(row);
    }
    this.window.replaceChildren(...made);
  }
}

/** A text of one stage, to scroll through and to point at. */
export class Pane {
  #top = 0;
  #at = 0;

  /**
   * @param {HTMLElement} parent
   * @param {string} title
   * @param {Selection} selection
   */
  constructor(parent, title, selection) {
    const figure = document.createElement('figure');
    figure.className = 'pane';
    const caption = document.createElement('figcaption');
    caption.textContent = title;
    this.size = document.createElement('span');
    caption.append(this.size);
    this.box = document.createElement('div');
    this.box.className = 'text';
    this.box.tabIndex = 0;
    this.box.setAttribute('role', 'region');
    this.box.ariaLabel = `${title}: arrow keys go from line to line, Enter keeps one`;
    this.room = document.createElement('div');
    this.room.className = 'room';
    const window = document.createElement('div');
    window.className = 'window';
    this.room.append(window);
    this.box.append(this.room);
    figure.append(caption, this.box);
    parent.append(figure);
    this.selection = selection;
    this.lines = new Lines(window, selection);
    this.box.addEventListener('scroll', () => this.#draw());
    this.box.addEventListener('pointermove', (event) =>
      selection.set('hover', this.lines.idsOf(this.#lineAt(event)), this),
    );
    this.box.addEventListener('pointerleave', () => selection.set('hover', []));
    this.box.addEventListener('click', (event) => {
      this.#at = this.#lineAt(event);
      selection.toggle(this.lines.idsOf(this.#at), this);
    });
    this.box.addEventListener('keydown', (event) => this.#key(event));
    selection.addEventListener('change', (event) => this.#changed(/** @type {CustomEvent} */ (event).detail));
    new ResizeObserver(() => this.#draw()).observe(this.box);
  }

  /**
   * @param {string} text
   * @param {Range[]} ranges
   */
  set(text, ranges) {
    this.lines.set(text.trimEnd(), ranges);
    this.size.textContent = this.lines.count ? `${this.lines.count.toLocaleString('en')} lines` : '';
    this.room.style.height = `${this.lines.count * LINE}px`;
    this.room.style.width = `${this.lines.longest + 8}ch`;
    this.box.scrollTo(0, 0);
    this.#at = 0;
    this.#draw();
  }

  /** @param {MouseEvent} event */
  #lineAt(event) {
    return Math.floor((event.clientY - this.room.getBoundingClientRect().top) / LINE);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step) {
      this.#at = Math.max(0, Math.min(this.lines.count - 1, this.#at + step));
      this.selection.set('hover', this.lines.idsOf(this.#at), this);
      this.#reveal(this.#at);
    } else if (event.key === 'Enter') this.selection.toggle(this.lines.idsOf(this.#at), this);
    else if (event.key === 'Escape') this.selection.set('chosen', []);
    else return;
    event.preventDefault();
  }

  /** @param {string} mark */
  #changed(mark) {
    if (mark === 'chosen' && this.selection.from !== this) {
      const line = this.lines.find(this.selection.get('chosen'));
      if (line >= 0) {
        this.#at = line;
        this.#reveal(line);
      }
    }
    this.#draw();
  }

  /** @param {number} line */
  #reveal(line) {
    const { scrollTop, clientHeight } = this.box;
    if (line * LINE < scrollTop || (line + 3) * LINE > scrollTop + clientHeight)
      this.box.scrollTop = Math.max(0, (line - 3) * LINE);
  }

  #draw() {
    this.#top = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 4);
    this.lines.window.style.transform = `translateY(${this.#top * LINE}px)`;
    this.lines.show(this.#top, Math.ceil(this.box.clientHeight / LINE) + 8);
  }
}
