// Workers in a ring, and what they send: arrows from one to another, and packets that go along them.

import { element } from '../svg.js';
import { size } from './programs.js';

/** @typedef {{from: number, to: number, bytes: number}} Sending */

const SIDE = 400;
const RADIUS = 150;
const NODE = 26;
const GAP = 3; // between a node and a label
const BEND = 0.16; // of an arrow's length: there and back are two arrows
const PASSING = 85; // from the middle of an arrow to the ring, past the nodes between
const TRAVEL = 1500; // milliseconds of an exchange
const REST = 500; // and after it
const NAMED = 12; // packets that have room for a label

const still = matchMedia('(prefers-reduced-motion: reduce)');

export class Ring {
  #frame = 0;

  /** @param {HTMLElement} place */
  constructor(place) {
    this.svg = element('svg', {
      viewBox: `0 0 ${SIDE} ${SIDE}`,
      role: 'img',
      'aria-label': 'Nothing has been sent yet',
    });
    this.paths = element('g', {});
    this.nodes = element('g', {});
    this.packets = element('g', {});
    this.svg.append(this.paths, this.packets, this.nodes);
    place.append(this.svg);
  }

  /**
   * Workers, none of which sends.
   * @param {number} count
   */
  seat(count) {
    this.stop();
    this.places = Array.from({ length: count }, (_, i) => {
      const angle = (i / count - 0.25) * 2 * Math.PI;
      const radius = count > 1 ? RADIUS : 0;
      return { x: SIDE / 2 + radius * Math.cos(angle), y: SIDE / 2 + radius * Math.sin(angle) };
    });
    this.nodes.replaceChildren(
      ...this.places.map(({ x, y }, worker) => {
        const node = element('g', { class: 'node', 'data-worker': worker });
        node.append(element('circle', { cx: x, cy: y, r: NODE }), element('text', { x, y: y + 6 }, String(worker)));
        return node;
      }),
    );
    this.paths.replaceChildren();
    this.packets.replaceChildren();
  }

  /**
   * Shows exchanges, one after another.
   * @param {Sending[][]} exchanges
   * @param {string} description in words
   * @param {(exchange: number) => void} reached called when one begins, and with their number at the end
   */
  play(exchanges, description, reached) {
    this.stop();
    this.svg.setAttribute('aria-label', description);
    if (still.matches || !exchanges.length) {
      this.#draw(exchanges.flat());
      reached(exchanges.length);
      return;
    }
    const begin = performance.now();
    let shown = -1;
    const tick = () => {
      const passed = performance.now() - begin;
      const now = Math.floor(passed / (TRAVEL + REST));
      if (now >= exchanges.length) {
        this.#frame = 0;
        this.#draw(exchanges.flat());
        reached(exchanges.length);
        return;
      }
      if (now !== shown) {
        shown = now;
        this.#draw(exchanges[now]);
        this.#pack(exchanges[now]);
        reached(now);
      }
      this.#move(exchanges[now], Math.min(1, (passed - now * (TRAVEL + REST)) / TRAVEL));
      this.#frame = requestAnimationFrame(tick);
    };
    this.#frame = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.packets.replaceChildren();
  }

  /** Arrows, each pair of workers once. @param {Sending[]} sendings */
  #draw(sendings) {
    const seen = new Set();
    const parts = [];
    this.packets.replaceChildren();
    for (const { from, to } of sendings) {
      if (seen.has(`${from} ${to}`)) continue;
      seen.add(`${from} ${to}`);
      const [a, control, b] = this.#curve(from, to, () => NODE + 2);
      const arrow = element('g', { 'data-worker': from });
      const angle = (Math.atan2(b.y - control.y, b.x - control.x) * 180) / Math.PI;
      arrow.append(
        element('path', { class: 'path', d: `M${a.x} ${a.y}Q${control.x} ${control.y} ${b.x} ${b.y}` }),
        element('path', {
          class: 'head',
          d: 'M0 0L-10 -4.5L-10 4.5Z',
          transform: `translate(${b.x} ${b.y}) rotate(${angle})`,
        }),
      );
      parts.push(arrow);
    }
    this.paths.replaceChildren(...parts);
  }

  /** @param {Sending[]} sendings */
  #pack(sendings) {
    this.packets.replaceChildren(
      ...sendings.map(({ from, bytes }) => {
        const text = label(bytes, sendings);
        const packet = element('g', { class: 'packet', 'data-worker': from });
        const { width, height } = box(text);
        packet.append(element('rect', { x: -width / 2, y: -height / 2, width, height, rx: 4 }));
        if (text) packet.append(element('text', { y: 3.5 }, text));
        return packet;
      }),
    );
  }

  /**
   * @param {Sending[]} sendings
   * @param {number} part of the way, from 0 to 1
   */
  #move(sendings, part) {
    const t = part < 0.5 ? 2 * part * part : 1 - 2 * (1 - part) ** 2;
    sendings.forEach(({ from, to, bytes }, i) => {
      // From beside the sender to beside the receiver: what is behind one cannot be read.
      const { width, height } = box(label(bytes, sendings));
      const room = { x: NODE + GAP + width / 2, y: NODE + GAP + height / 2 };
      const [a, control, b] = this.#curve(from, to, (x, y) => Math.min(room.x / Math.abs(x), room.y / Math.abs(y)));
      /** @param {'x' | 'y'} axis */
      const at = (axis) => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * control[axis] + t * t * b[axis];
      this.packets.children[i].setAttribute('transform', `translate(${at('x').toFixed(1)} ${at('y').toFixed(1)})`);
    });
  }

  /**
   * Where an arrow begins, its control point, where it ends.
   * @param {number} from
   * @param {number} to
   * @param {(x: number, y: number) => number} gap to the middle of a node in a direction, which is of length 1
   */
  #curve(from, to, gap) {
    const places = /** @type {{x: number, y: number}[]} */ (this.places);
    const [a, b] = [places[from], places[to]];
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    // Arrows against the clock bend outwards, where the nodes are that they pass, and so less.
    const steps = (from - to + places.length) % places.length;
    const outside = RADIUS * (1 - Math.cos((Math.PI * steps) / places.length));
    const length = Math.hypot(dx, dy);
    const bend = steps === 1 ? BEND : Math.min(BEND, (2 * (outside - PASSING)) / length);
    const control = { x: (a.x + b.x) / 2 - bend * dy, y: (a.y + b.y) / 2 + bend * dx };
    /** @param {{x: number, y: number}} end */
    const trimmed = (end) => {
      const distance = Math.hypot(control.x - end.x, control.y - end.y);
      const [x, y] = [(control.x - end.x) / distance, (control.y - end.y) / distance];
      return { x: end.x + x * gap(x, y), y: end.y + y * gap(x, y) };
    };
    return [trimmed(a), control, trimmed(b)];
  }
}

/**
 * What is written on a packet: nothing where there are many.
 * @param {number} bytes
 * @param {Sending[]} sendings of the exchange
 */
const label = (bytes, sendings) => (sendings.length <= NAMED ? size(bytes) : '');

/**
 * The size of a packet.
 * @param {string} text
 */
const box = (text) => (text ? { width: 9 + 5.6 * text.length, height: 16 } : { width: 12, height: 12 });

/**
 * An exchange in words.
 * @param {Sending[]} sendings
 * @param {number} count of workers
 */
export function told(sendings, count) {
  const senders = new Map();
  for (const { from, bytes } of sendings) senders.set(from, [...(senders.get(from) ?? []), bytes]);
  const lists = [...senders.values()];
  const alike = lists.every(
    (list) => list.length === lists[0].length && list.every((/** @type {number} */ bytes) => bytes === lists[0][0]),
  );
  if (!lists.length) return 'nothing is sent';
  const who =
    senders.size === count && count > 1
      ? 'each worker'
      : senders.size === 1
        ? `worker ${sendings[0].from}`
        : `${senders.size} workers`;
  const verb = senders.size > 1 && senders.size < count ? 'send' : 'sends';
  if (!alike) return `${who} ${verb} ${size(total(sendings))} in all`;
  const receivers = lists[0].length;
  return `${who} ${verb} ${size(lists[0][0])} to ${receivers === 1 ? 'one other' : `each of ${receivers} others`}`;
}

/** @param {Sending[]} sendings */
export const total = (sendings) => sendings.reduce((sum, { bytes }) => sum + bytes, 0);
