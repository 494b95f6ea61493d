// Exchanges between devices, as a module asks for them: which of its memory goes to which device, and what comes from
// which. Blocks that a device sends to itself are copied here; the others go by shared_memory.js or message_ports.js.
// Mirrors xla_wasm/host/exchange.py.

import { counted } from '../arrays.js';
import { ArgumentError, ArtifactError, ExchangeError } from '../errors.js';
import { Fields } from '../manifest.js';
import { REQUESTS, REQUESTS_FROM, REQUESTS_TO } from '../manifest_fields.js';
import { clock } from '../source.js';
import { ONE_DEVICE, fits, readDevices, wanted } from './grid.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */
/** @typedef {import('./grid.js').Grid} Grid */

/**
 * A request to send blocks of memory to other devices and to receive some from them. Block j of every entry of `sends`
 * goes to the device that number j of `to` says; row i of every entry of `receives` is what the device sent that number
 * i of `from` says. -1 stands for none.
 * @typedef {object} Exchange
 * @property {string} name
 * @property {string} opcode
 * @property {number} channel what sender and receiver agree on
 * @property {boolean} buffered whether it is over before anyone has received what was sent
 * @property {{offset: number, count: number}} to where the numbers lie, s32
 * @property {{offset: number, count: number}} from
 * @property {{offset: number, bytes: number, stride: number}[]} sends the bytes of a block, and from one to the next: 0
 *   where all get the same
 * @property {{offset: number, bytes: number}[]} receives the bytes of a row
 */

/**
 * How blocks get from one device to another. Its `exchange` returns, or fulfils its promise, when all rows are there
 * and the blocks may be overwritten.
 * @typedef {object} Transport
 * @property {(port: Port) => void | Promise<void>} exchange
 * @property {(run: number) => void} begin
 * @property {() => void | Promise<void>} end after a run that went well
 * @property {(run?: number) => void} fail after one that did not, here or elsewhere
 */

/**
 * An event: a device has finished an exchange. `bytes` go to each device of `to`.
 * @typedef {object} ExchangeEvent
 * @property {number} device which device tells of it
 * @property {string} name the instruction
 * @property {string} opcode its operation, such as `all-reduce`
 * @property {number[]} to the devices that it has sent to
 * @property {number[]} from the devices that it has received from
 * @property {number} bytes how many went to each of `to`
 * @property {number} milliseconds how long it took, waiting included
 */

/** The wait in which a device gave up. @typedef {{where: string, others: number[], ended: boolean}} Wait */

/**
 * @param {Fields} item
 * @param {number} memory
 * @returns {Exchange}
 */
function readExchange(item, memory) {
  const [to, from] = Object.entries({ to: REQUESTS_TO, from: REQUESTS_FROM }).map(([key, rows]) => {
    const numbers = item.object(key, rows);
    const count = numbers.int('count');
    return { offset: numbers.address('offset', memory, { size: 4 * count }), count };
  });
  const sends = item.objects('sends', (send) => {
    const bytes = send.int('bytes', { high: memory });
    const stride = send.int('stride');
    if (stride && stride !== bytes) send.fail('stride', `expected 0 or ${bytes}, the bytes of a block, got ${stride}`);
    return { offset: send.address('offset', memory, { size: stride ? bytes * to.count : bytes }), bytes, stride };
  });
  const receives = item.objects('receives', (receive) => {
    const bytes = receive.int('bytes', { high: memory });
    return { offset: receive.address('offset', memory, { size: bytes * from.count }), bytes };
  });
  return {
    name: item.text('name'),
    opcode: item.text('opcode'),
    channel: item.int('channel'),
    buffered: item.flag('buffered'),
    to,
    from,
    sends,
    receives,
  };
}

/**
 * The exchanges that a manifest states, checked.
 * @param {Manifest} manifest
 */
export function exchanges(manifest) {
  return manifest.requests.flatMap((raw, i) =>
    raw?.kind === 'exchange' ? readExchange(new Fields(raw, `requests[${i}]`, REQUESTS), manifest.memoryBytes) : [],
  );
}

/** An exchange in the memory of an instance. */
export class Port {
  /**
   * @param {Exchange} exchange
   * @param {ArrayBuffer} buffer
   */
  constructor(exchange, buffer) {
    const { to, from } = exchange;
    this.exchange = exchange;
    this.memory = new Uint8Array(buffer);
    this.to = new Int32Array(buffer, to.offset, to.count);
    this.from = new Int32Array(buffer, from.offset, from.count);
    /** Bytes of a row in all arrays that come. */
    this.room = exchange.receives.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Block j of what entry i sends.
   * @param {number} i
   * @param {number} j
   */
  block(i, j) {
    const { offset, bytes, stride } = this.exchange.sends[i];
    return this.memory.subarray(offset + j * stride, offset + j * stride + bytes);
  }

  /**
   * Copies of all that goes to receiver j, one after another.
   * @param {number} j
   */
  copies(j) {
    const { sends } = this.exchange;
    const copy = new Uint8Array(sends.reduce((sum, { bytes }) => sum + bytes, 0));
    let at = 0;
    for (let i = 0; i < sends.length; at += sends[i++].bytes) copy.set(this.block(i, j), at);
    return copy;
  }

  /**
   * Writes row i of all that comes.
   * @param {number} i
   * @param {Uint8Array} data as `copies` of the sender made it
   */
  write(i, data) {
    if (data.length !== this.room) throw this.misfit(data.length);
    let at = 0;
    for (const { offset, bytes } of this.exchange.receives)
      this.memory.set(data.subarray(at, (at += bytes)), offset + i * bytes);
  }

  /** @param {number} bytes what a device sent */
  misfit(bytes) {
    return new ArtifactError(`${this} gets blocks of ${counted(bytes, 'byte')} where it has room for ${this.room}`);
  }

  toString() {
    const { opcode, name } = this.exchange;
    return `${opcode} '${name}'`;
  }
}

/**
 * The error of a device that has waited for others in vain, or that others have told to stop; the page knows what those
 * do.
 * @param {string} message
 * @param {Wait} wait
 */
const waited = (message, wait) => Object.assign(new ExchangeError(message), { wait });

/** The device that this thread is. */
export class Device {
  /** @type {Map<number, Uint8Array[]>} by channel, what it sent to itself and has not received */
  #own = new Map();

  /**
   * @param {number} id
   * @param {Grid} grid
   * @param {number} timeout seconds to wait for others in one exchange
   * @param {string} [source] where the module came from
   * @param {(event: Omit<ExchangeEvent, 'device'>) => void} [report]
   */
  constructor(id, grid, timeout, source, report) {
    this.id = id;
    this.grid = grid;
    this.timeout = timeout;
    this.source = source;
    this.report = report;
    /** @type {Transport | undefined} */
    this.transport = undefined;
    /** True if it waits by blocking its thread. */
    this.blocks = true;
  }

  /** @param {number} run its number */
  begin(run) {
    this.#own.clear();
    this.transport?.begin(run);
  }

  /**
   * Serves an exchange.
   * @param {Port} port
   * @returns {void | Promise<void>}
   */
  exchange(port) {
    if (!this.report) return this.#serve(port);
    const begin = clock.now();
    const { name, opcode, sends } = port.exchange;
    const [to, from] = [port.to, port.from].map((ids) => Array.from(ids).filter((id) => id >= 0));
    const bytes = sends.reduce((sum, send) => sum + send.bytes, 0);
    const tell = () => this.report?.({ name, opcode, to, from, bytes, milliseconds: clock.now() - begin });
    const served = this.#serve(port);
    return served ? served.then(tell) : tell();
  }

  /** @param {Port} port */
  #serve(port) {
    for (const ids of [port.to, port.from]) {
      for (const id of ids)
        if (id < -1 || id >= this.grid.count)
          throw new ArtifactError(`${port} names device ${id}, and there are ${this.grid.count}`);
    }
    this.#serveSelf(port);
    return this.transport?.exchange(port);
  }

  /** @param {Port} port */
  #serveSelf(port) {
    const [sent, received] = [port.to.indexOf(this.id), port.from.indexOf(this.id)];
    if (sent < 0 && received < 0) return;
    const { channel, sends, receives } = port.exchange;
    const early = this.#own.get(channel) ?? [];
    if (
      sent >= 0 &&
      received >= 0 &&
      !early.length &&
      sends.length === receives.length &&
      sends.every(({ bytes }, i) => bytes === receives[i].bytes)
    ) {
      sends.forEach(({ offset, bytes, stride }, i) => {
        const start = offset + sent * stride;
        port.memory.copyWithin(receives[i].offset + received * bytes, start, start + bytes);
      });
      return;
    }
    if (sent >= 0) this.#own.set(channel, [...early, port.copies(sent)]);
    if (received < 0) return;
    const data = this.#own.get(channel)?.shift();
    if (!data) throw this.overdue(port, 0, [this.id]);
    port.write(received, data);
  }

  /**
   * @param {Port} port
   * @param {number} seconds
   * @param {number[]} others that it has waited for
   */
  overdue(port, seconds, others) {
    const whom = others.map((other) => `device ${other}`).join(', ');
    return waited(
      `${this.grid.name(this.id)} waited ${Number(seconds.toPrecision(2))} s in ${port} for ${whom || 'nobody'}`,
      { where: String(port), others, ended: false },
    );
  }

  /**
   * Another device has ended the run: what this one throws says nothing new.
   * @param {Port} port
   * @param {number[]} [others]
   */
  ended(port, others = []) {
    return waited(`${this.grid.name(this.id)}: the run ended in ${port}`, { where: String(port), others, ended: true });
  }
}

/**
 * The devices of a program as one instance sees them.
 * @param {Manifest} manifest
 * @param {Device} [device] in a group; otherwise it is the only one
 */
export function present(manifest, device) {
  const { name, memoryBytes } = manifest;
  const devices = readDevices(manifest);
  const self = device ?? new Device(0, ONE_DEVICE, 0);
  return {
    /** @param {ArrayBuffer} buffer */
    place(buffer) {
      if (devices) new Uint32Array(buffer, devices.offset, 4).set(self.grid.ids(self.id));
    },
    /** Before a run. */
    check() {
      if (device) return;
      if (!fits(devices, ONE_DEVICE)) {
        throw new ArgumentError(
          `'${name}' runs on ${wanted(devices)}: load(source, {devices: ...}), then call runReplicated with a list ` +
            `of arguments for each of them, or runGlobal with whole arrays`,
        );
      }
      self.begin(0);
    },
    /**
     * @param {Fields} item
     * @returns {import('../requests/requests.js').Binding}
     */
    exchange(item) {
      const exchange = readExchange(item, memoryBytes);
      return (buffer) => {
        const port = new Port(exchange, buffer);
        return { what: String(port), ask: () => self.exchange(port), take() {} };
      };
    },
  };
}
