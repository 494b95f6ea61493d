// Exchanges by shared memory, between threads that may wait. Each device has an outbox, into which it copies what it
// sends, once for all that get the same, and tells each receiver in a list of its own where that lies. It waits only
// when the outbox is full. Threads sleep until another rings their bell; nobody polls.

/** @typedef {import('./exchange.js').Device} Device */
/** @typedef {import('./exchange.js').Exchange} Exchange */
/** @typedef {import('./exchange.js').Port} Port */
/** @typedef {import('./exchange.js').Transport} Transport */

/**
 * The shared memory: numbers for all, a block of numbers for each device, counts of who has still to read what, lists
 * of what is there from one device for another, and the outboxes.
 * @typedef {object} Mailboxes
 * @property {SharedArrayBuffer} buffer
 * @property {number} count of devices
 * @property {number} slots in each list
 * @property {number} piece most bytes that are copied at once
 * @property {number} capacity bytes of an outbox
 */

/**
 * @typedef {{view: Uint8Array, receivers: number[], first: boolean}} Segment bytes for some receivers, the first ones
 *   of an exchange or not
 */
/**
 * @typedef {{port: Port, segments: Segment[], receivers: number[], at: number, done: number}} Entry what one exchange
 *   sends, and how far that is
 */
/**
 * @typedef {{view: Uint8Array, first: boolean, index: number}} Piece what has come; `index` of what lies in the
 *   sender's outbox, else -1
 */
/**
 * @typedef {{port: Port | undefined, row: number, operand: number, at: number}} Cursor what comes from a device and
 *   where that goes
 */

// Numbers, in units of four bytes. What different threads write lies 64 bytes apart.
const LINE = 16;
const OVER = 0; // 1 once a device has failed
const [BELL, WAITS, ENDED] = [0, 1, 2]; // of a device
const BLOCKS = 256; // in an outbox at a time
// Of a list: how much the receiver has taken, how much the sender has put, the slots.
const [HEAD, TAIL, LIST] = [0, LINE, 2 * LINE];
const SLOT = 4; // channel and marks, block of the outbox, where the bytes lie in it, how many
const [BUFFERED, FIRST] = [1, 2]; // marks

const PIECE = 1 << 24;

/** @param {number} bytes */
const aligned = (bytes) => Math.ceil(bytes / 64) * 64;

/** @param {number} count of devices */
const blocksAt = (count) => LINE * (1 + count);

/** @param {{count: number, slots: number}} mailboxes */
const listsAt = ({ count }) => blocksAt(count) + BLOCKS * count;

/** @param {{count: number, slots: number}} mailboxes */
const numbers = (mailboxes) => listsAt(mailboxes) + mailboxes.count ** 2 * (LIST + SLOT * mailboxes.slots);

/**
 * SharedMemoryTransport memory for these exchanges; throws RangeError if there is no room for it.
 * @param {number} count of devices
 * @param {Exchange[]} exchanges
 * @param {number} [limit] the most bytes that it may have
 * @returns {Mailboxes}
 */
export function makeMailboxes(count, exchanges, limit = Infinity) {
  const sizes = exchanges.map(({ sends, to }) =>
    sends.reduce((sum, { bytes, stride }) => sum + (stride ? Math.min(to.count, count - 1) : 1) * aligned(bytes), 0),
  );
  const piece = aligned(Math.min(Math.max(4096, ...sizes), PIECE));
  const most = Math.max(4, ...exchanges.map(({ sends }) => sends.length));
  const mailboxes = { count, slots: 2 ** Math.ceil(Math.log2(2 * most)), piece, capacity: Math.max(2 * piece, 65536) };
  const size = aligned(4 * numbers(mailboxes)) + count * mailboxes.capacity;
  if (size > limit) throw new RangeError(`it would take ${size} bytes, the limit is ${limit}`);
  return { ...mailboxes, buffer: new SharedArrayBuffer(size) };
}

/**
 * As it is before a run; no device may be running.
 * @param {Mailboxes} mailboxes
 */
export function clear(mailboxes) {
  new Int32Array(mailboxes.buffer, 0, numbers(mailboxes)).fill(0);
}

/**
 * Ends the run of all devices; those that wait wake.
 * @param {Mailboxes} mailboxes
 */
export function end({ buffer, count }) {
  const words = new Int32Array(buffer);
  Atomics.store(words, OVER, 1);
  for (let device = 0; device < count; device++) {
    Atomics.add(words, LINE * (1 + device) + BELL, 1);
    Atomics.notify(words, LINE * (1 + device) + BELL);
  }
}

/** @implements {Transport} */
export class SharedMemoryTransport {
  #device;
  #id;
  #mailboxes;
  #words;
  #bytes;
  #outboxes;
  #own;
  #peers;
  /** @type {Int32Array} how much this device has put into the list for each */
  #tails;
  /** @type {Int32Array} how much it has taken from the list of each */
  #heads;
  /**
   * @type {{index: number, offset: number, size: number}[]} the blocks of the outbox that are in use, by their place
   */
  #live = [];
  /** @type {number[]} */
  #free = [];
  /** @type {Entry[]} what there is no room for yet */
  #queue = [];
  /** @type {Map<number, Piece[]>} what came before it was wanted, by channel and sender */
  #early = new Map();
  /** @type {Cursor[]} by sender */
  #cursors;
  /** Rows that are still to come. */
  #missing = 0;

  /**
   * @param {Device} device
   * @param {Mailboxes} mailboxes
   */
  constructor(device, mailboxes) {
    const { buffer, count } = mailboxes;
    this.#device = device;
    this.#id = device.id;
    this.#mailboxes = mailboxes;
    this.#words = new Int32Array(buffer);
    this.#bytes = new Uint8Array(buffer);
    this.#outboxes = aligned(4 * numbers(mailboxes));
    this.#own = LINE * (1 + device.id);
    this.#peers = Array.from({ length: count }, (_, i) => i).filter((i) => i !== device.id);
    this.#tails = new Int32Array(count);
    this.#heads = new Int32Array(count);
    this.#cursors = Array.from({ length: count }, () => ({ port: undefined, row: 0, operand: 0, at: 0 }));
  }

  begin() {
    this.#tails.fill(0);
    this.#heads.fill(0);
    this.#live = [];
    this.#free = Array.from({ length: BLOCKS }, (_, i) => i);
    this.#queue = [];
    this.#early.clear();
    this.#missing = 0;
    for (const cursor of this.#cursors) cursor.port = undefined;
  }

  /** @param {Port} port */
  exchange(port) {
    if (Atomics.load(this.#words, OVER)) throw this.#device.ended(port);
    const { buffered, channel } = port.exchange;
    const entry = this.#entry(port);
    if (entry.receivers.length && (this.#queue.length || !this.#put(entry))) {
      if (buffered) for (const segment of entry.segments) segment.view = segment.view.slice();
      this.#queue.push(entry);
    }
    for (let row = 0; row < port.from.length; row++) {
      const sender = port.from[row];
      if (sender < 0 || sender === this.#id) continue;
      const cursor = this.#cursors[sender];
      Object.assign(cursor, { port, row, operand: -1, at: 0 });
      this.#missing++;
      this.#advance(cursor);
      const early = this.#early.get(this.#key(channel, sender));
      while (cursor.port && early?.length) this.#read(sender, /** @type {Piece} */ (early.shift()));
    }
    const open = () => this.#missing > 0 || (!buffered && this.#queue.length > 0);
    if (this.#missing) this.#take();
    if (open()) this.#wait(port, open);
  }

  end() {
    if (this.#queue.length) this.#wait(this.#queue[0].port, () => this.#queue.length > 0);
    // What nobody has asked for is dropped, so that nobody waits for its place.
    this.#take();
    for (const [key, pieces] of this.#early)
      for (const { index } of pieces) this.#release(key % this.#mailboxes.count, index);
    this.#early.clear();
    Atomics.store(this.#words, this.#own + ENDED, 1);
    for (const peer of this.#peers) this.#ring(peer);
  }

  fail() {
    end(this.#mailboxes);
  }

  /**
   * Sleeps until the work is done.
   * @param {Port} port
   * @param {() => boolean} open whether something is still to do
   */
  #wait(port, open) {
    const words = this.#words;
    const { timeout } = this.#device;
    const begin = performance.now();
    for (;;) {
      const bell = Atomics.load(words, this.#own + BELL);
      // First to say that it waits, then to look: whoever changes something looks after that whether to ring.
      Atomics.store(words, this.#own + WAITS, 1);
      const over = Atomics.load(words, OVER);
      const ended = this.#peers.filter((peer) => this.#hasEnded(peer));
      this.#take();
      this.#flush();
      const passed = (performance.now() - begin) / 1000;
      if (!open()) break;
      const others = this.#awaited();
      if (over) throw this.#device.ended(port, others);
      if (passed >= timeout) throw this.#device.overdue(port, timeout, others);
      if (this.#missing && others.some((other) => ended.includes(other)))
        throw this.#device.overdue(port, passed, others);
      Atomics.wait(words, this.#own + BELL, bell, (timeout - passed) * 1000);
    }
    Atomics.store(words, this.#own + WAITS, 0);
  }

  /** Whom it waits for: senders, or else those who have not made room. */
  #awaited() {
    const senders = this.#peers.filter((peer) => this.#cursors[peer].port);
    return senders.length ? senders : (this.#queue[0]?.receivers ?? []);
  }

  /**
   * Returns the bytes that an exchange sends, and to whom.
   * @param {Port} port
   * @returns {Entry}
   */
  #entry(port) {
    const { sends } = port.exchange;
    const receivers = /** @type {number[]} */ ([]);
    const places = /** @type {number[]} */ ([]);
    for (let j = 0; j < port.to.length; j++) {
      const receiver = port.to[j];
      if (receiver < 0 || receiver === this.#id || this.#hasEnded(receiver)) continue;
      receivers.push(receiver);
      places.push(j);
    }
    const segments = /** @type {Segment[]} */ ([]);
    let first = true;
    for (let i = 0; receivers.length && i < sends.length; i++) {
      if (!sends[i].bytes) continue;
      if (sends[i].stride)
        places.forEach((j, k) => segments.push({ view: port.block(i, j), receivers: [receivers[k]], first }));
      else segments.push({ view: port.block(i, 0), receivers, first });
      first = false;
    }
    return { port, segments, receivers, at: 0, done: 0 };
  }

  /** Puts into the outbox what there is room for by now, and drops what nobody will read. */
  #flush() {
    while (
      this.#queue.length &&
      (this.#queue[0].receivers.every((receiver) => this.#hasEnded(receiver)) || this.#put(this.#queue[0]))
    )
      this.#queue.shift();
  }

  /** @param {number} device */
  #hasEnded(device) {
    return Atomics.load(this.#words, LINE * (1 + device) + ENDED) > 0;
  }

  /**
   * Puts an entry into the outbox, as much of it as there is room for.
   * @param {Entry} entry
   * @returns {boolean} whether that is all of it
   */
  #put(entry) {
    const { segments, port } = entry;
    const { piece } = this.#mailboxes;
    const { channel, buffered } = port.exchange;
    while (entry.at < segments.length) {
      // As many segments as make a piece, or else a piece of one.
      let size = 0;
      let readers = 0;
      let next = entry.at;
      for (let done = entry.done; next < segments.length; next++, done = 0) {
        const rest = aligned(segments[next].view.length - done);
        if (size + rest > piece) break;
        size += rest;
        readers += segments[next].receivers.length;
      }
      const split = next === entry.at;
      if (split) {
        size = piece;
        readers = segments[next++].receivers.length;
      }
      if (!this.#hasSlots(entry)) return false;
      const block = this.#allocate(size, readers);
      if (!block) return false;
      let offset = block.offset;
      for (; entry.at < next; entry.at++, entry.done = 0) {
        const { view, receivers, first } = segments[entry.at];
        const part = split || entry.done ? view.subarray(entry.done, split ? entry.done + piece : undefined) : view;
        this.#bytes.set(part, this.#outboxes + this.#id * this.#mailboxes.capacity + offset);
        const marks = (channel << 2) | (first && !entry.done ? FIRST : 0) | (buffered ? BUFFERED : 0);
        for (const receiver of receivers) this.#tell(receiver, marks, block.index, offset, part.length);
        offset += aligned(part.length);
        if (split) {
          entry.done += piece;
          break;
        }
      }
    }
    return true;
  }

  /** Returns true if every receiver's list has room for all slots of an entry. @param {Entry} entry */
  #hasSlots({ receivers, port }) {
    const { slots } = this.#mailboxes;
    const need = port.exchange.sends.length;
    return receivers.every(
      (receiver) =>
        slots - ((this.#tails[receiver] - Atomics.load(this.#words, this.#list(this.#id, receiver) + HEAD)) | 0) >=
        need,
    );
  }

  /**
   * A block of the outbox, at the lowest place where there is room.
   * @param {number} size
   * @param {number} readers
   */
  #allocate(size, readers) {
    for (const again of [false, true]) {
      const counts = blocksAt(this.#mailboxes.count) + BLOCKS * this.#id;
      if (again) {
        const unread = this.#live.filter(
          ({ index }) => Atomics.load(this.#words, counts + index) > 0 || !this.#free.push(index),
        );
        if (unread.length === this.#live.length) return undefined;
        this.#live = unread;
      }
      if (!this.#free.length) continue;
      let offset = 0;
      for (let i = 0; i <= this.#live.length; i++) {
        const taken = this.#live[i];
        if ((taken ? taken.offset : this.#mailboxes.capacity) - offset >= size) {
          const block = { index: /** @type {number} */ (this.#free.pop()), offset, size };
          this.#live.splice(i, 0, block);
          Atomics.store(this.#words, counts + block.index, readers);
          return block;
        }
        if (taken) offset = taken.offset + taken.size;
      }
    }
    return undefined;
  }

  /**
   * Tells a receiver what lies in the outbox for it.
   * @param {number} receiver
   * @param {number} marks
   * @param {number} index
   * @param {number} offset
   * @param {number} bytes
   */
  #tell(receiver, marks, index, offset, bytes) {
    const list = this.#list(this.#id, receiver);
    const slot = list + LIST + SLOT * (this.#tails[receiver]++ & (this.#mailboxes.slots - 1));
    const words = this.#words;
    words[slot] = marks;
    words[slot + 1] = index;
    words[slot + 2] = offset;
    words[slot + 3] = bytes;
    Atomics.store(words, list + TAIL, this.#tails[receiver]);
    this.#ring(receiver);
  }

  /** Takes what all others have put into the lists for this device. */
  #take() {
    const words = this.#words;
    for (const sender of this.#peers) {
      const list = this.#list(sender, this.#id);
      const tail = Atomics.load(words, list + TAIL);
      if (tail === this.#heads[sender]) continue;
      for (; this.#heads[sender] !== tail; this.#heads[sender]++) {
        const slot = list + LIST + SLOT * (this.#heads[sender] & (this.#mailboxes.slots - 1));
        const start = this.#outboxes + sender * this.#mailboxes.capacity + words[slot + 2];
        const view = this.#bytes.subarray(start, start + words[slot + 3]);
        this.#came(sender, words[slot] >> 2, !!(words[slot] & BUFFERED), {
          view,
          first: !!(words[slot] & FIRST),
          index: words[slot + 1],
        });
      }
      Atomics.store(words, list + HEAD, tail);
      this.#ring(sender);
    }
  }

  /**
   * @param {number} sender
   * @param {number} channel
   * @param {boolean} buffered
   * @param {Piece} piece
   */
  #came(sender, channel, buffered, piece) {
    const wanted = this.#cursors[sender].port;
    const key = this.#key(channel, sender);
    const early = this.#early.get(key);
    if (wanted?.exchange.channel === channel && !early?.length) return this.#read(sender, piece);
    // A buffered one may stay for long, and must not keep others from the sender's outbox.
    const kept = buffered ? { view: piece.view.slice(), first: piece.first, index: -1 } : piece;
    if (early) early.push(kept);
    else this.#early.set(key, [kept]);
    if (buffered) this.#release(sender, piece.index);
  }

  /**
   * Copies a piece to where its row goes on.
   * @param {number} sender
   * @param {Piece} piece
   */
  #read(sender, { view, first, index }) {
    const cursor = this.#cursors[sender];
    const port = /** @type {Port} */ (cursor.port);
    const { offset, bytes } = port.exchange.receives[cursor.operand];
    const begins =
      cursor.at === 0 && port.exchange.receives.slice(0, cursor.operand).every((receive) => !receive.bytes);
    if (first !== begins || view.length > bytes - cursor.at) throw port.misfit(view.length);
    port.memory.set(view, offset + cursor.row * bytes + cursor.at);
    cursor.at += view.length;
    this.#release(sender, index);
    if (cursor.at === bytes) this.#advance(cursor);
  }

  /** To the next array that has bytes, or to the end. @param {Cursor} cursor */
  #advance(cursor) {
    const { receives } = /** @type {Port} */ (cursor.port).exchange;
    do cursor.operand++;
    while (cursor.operand < receives.length && !receives[cursor.operand].bytes);
    cursor.at = 0;
    if (cursor.operand < receives.length) return;
    cursor.port = undefined;
    this.#missing--;
  }

  /**
   * A piece has been read.
   * @param {number} sender
   * @param {number} index
   */
  #release(sender, index) {
    if (index >= 0 && Atomics.sub(this.#words, blocksAt(this.#mailboxes.count) + BLOCKS * sender + index, 1) === 1)
      this.#ring(sender);
  }

  /** @param {number} device that may wait for what has just changed */
  #ring(device) {
    const words = this.#words;
    const at = LINE * (1 + device);
    if (!Atomics.load(words, at + WAITS)) return;
    Atomics.add(words, at + BELL, 1);
    Atomics.notify(words, at + BELL);
  }

  /** @param {number} sender @param {number} receiver */
  #list(sender, receiver) {
    return (
      listsAt(this.#mailboxes) + (sender * this.#mailboxes.count + receiver) * (LIST + SLOT * this.#mailboxes.slots)
    );
  }

  /** @param {number} channel @param {number} sender */
  #key(channel, sender) {
    return channel * this.#mailboxes.count + sender;
  }
}
