// The editor: a textarea, with its lines drawn behind it, where they can be coloured, linked and marked as wrong.

import { LINE, Lines } from './lines.js';

/** @typedef {import('./lines.js').Selection} Selection */

export class Editor {
  /**
   * @param {HTMLElement} root
   * @param {Selection} selection
   * @param {() => void} changed called when the text changes by hand
   */
  constructor(root, selection, changed) {
    this.root = root;
    this.selection = selection;
    const behind = document.createElement('div');
    behind.className = 'behind';
    behind.ariaHidden = 'true';
    const window = document.createElement('div');
    window.className = 'window';
    behind.append(window);
    this.area = document.createElement('textarea');
    this.area.id = 'source';
    this.area.spellcheck = false;
    this.area.wrap = 'off';
    this.area.autocapitalize = 'off';
    this.area.ariaLabel = 'HLO text of the module';
    this.area.setAttribute('autocomplete', 'off');
    this.message = document.createElement('p');
    this.message.id = 'wrong';
    this.message.className = 'wrong';
    this.message.setAttribute('role', 'alert');
    this.message.hidden = true;
    root.append(behind, this.area, this.message);
    this.lines = new Lines(window, selection);
    this.area.addEventListener('input', () => {
      this.clear();
      this.lines.set(this.area.value, []);
      this.#draw();
      changed();
    });
    this.area.addEventListener('scroll', () => this.#draw());
    this.area.addEventListener('pointermove', (event) =>
      selection.set('hover', this.lines.idsOf(this.#lineAt(event)), this),
    );
    this.area.addEventListener('pointerleave', () => selection.set('hover', []));
    for (const kind of ['click', 'keyup']) this.area.addEventListener(kind, () => this.#choose());
    selection.addEventListener('change', (event) => {
      if (/** @type {CustomEvent} */ (event).detail === 'chosen' && selection.from !== this) {
        const line = this.lines.find(selection.get('chosen'));
        if (line >= 0) this.#reveal(line);
      }
      this.#draw();
    });
    new ResizeObserver(() => this.#draw()).observe(this.area);
  }

  get text() {
    return this.area.value;
  }

  /**
   * @param {string} text
   * @param {boolean} readOnly
   */
  set(text, readOnly = false) {
    this.area.value = text;
    this.area.readOnly = readOnly;
    this.clear();
    this.lines.set(text, []);
    // A line that is not drawn whole would be cut where one scrolls to.
    this.root.classList.toggle('plain', /[^\n]{2000}/.test(text));
    this.area.scrollTo(0, 0);
    this.#draw();
  }

  /** @param {import('./lines.js').Range[]} ranges */
  link(ranges) {
    this.lines.link(ranges);
    this.#draw();
  }

  /**
   * Shows what is wrong at a line, counted from 1; 0 is no line in particular.
   * @param {string} text
   * @param {number} line
   * @param {number} column
   */
  fail(text, line, column) {
    this.message.textContent = line ? `Line ${line}: ${text.replace(/^line \d+, column \d+: /, '')}` : text;
    this.message.hidden = false;
    this.lines.bad = line - 1;
    this.message.dataset.line = String(line);
    this.message.style.setProperty('--column', String(Math.max(0, column - 1)));
    this.message.classList.toggle('placed', line > 0);
    // Where it is of no line, it must not cover any.
    if (line > 0) this.root.append(this.message);
    else this.root.after(this.message);
    this.area.setAttribute('aria-invalid', 'true');
    this.area.setAttribute('aria-errormessage', 'wrong');
    if (line > 0) this.#reveal(line - 1);
    this.#draw();
  }

  clear() {
    this.message.hidden = true;
    this.lines.bad = -1;
    this.area.removeAttribute('aria-invalid');
    this.area.removeAttribute('aria-errormessage');
  }

  #choose() {
    const line = this.area.value.slice(0, this.area.selectionStart).split('\n').length - 1;
    const ids = this.lines.idsOf(line);
    if (ids.length) this.selection.set('chosen', ids, this);
  }

  /** @param {MouseEvent} event */
  #lineAt(event) {
    return Math.floor((event.clientY - this.area.getBoundingClientRect().top - 8 + this.area.scrollTop) / LINE);
  }

  /** @param {number} line */
  #reveal(line) {
    const { scrollTop, clientHeight } = this.area;
    if (line * LINE < scrollTop || (line + 4) * LINE > scrollTop + clientHeight)
      this.area.scrollTop = Math.max(0, (line - 5) * LINE);
  }

  #draw() {
    const { scrollTop, scrollLeft, clientHeight } = this.area;
    const first = Math.max(0, Math.floor(scrollTop / LINE) - 2);
    this.lines.window.style.transform = `translate(${-scrollLeft}px, ${first * LINE - scrollTop}px)`;
    this.lines.show(first, Math.ceil(clientHeight / LINE) + 4);
    if (this.lines.bad >= 0) {
      const y = (this.lines.bad + 1) * LINE - scrollTop + 8;
      this.message.style.transform = `translateY(${Math.max(8, Math.min(y, clientHeight - 48))}px)`;
    } else this.message.style.transform = '';
  }
}
