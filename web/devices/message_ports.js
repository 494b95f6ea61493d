// Exchanges by messages, for workers of a page that has no shared memory: one message for each receiver, its bytes
// handed over.

/** @typedef {import('./exchange.js').Device} Device */
/** @typedef {import('./exchange.js').Port} Port */
/** @typedef {import('./exchange.js').Transport} Transport */

/** @typedef {{run: number, channel: number, data: Uint8Array} | {run: number, ended: true}} Message */

const LONGEST = 2 ** 31 - 1; // milliseconds that a timer can be set to

/** @implements {Transport} */
export class MessageTransport {
  #device;
  #run = 0;
  /** @type {Map<number, Message[]>} what has come from each device and has not been wanted yet */
  #inboxes = new Map();
  /** @type {() => void} */
  #wake = () => {};
  /** The last run that has failed. */
  #over = 0;

  /**
   * @param {Device} device
   * @param {Record<number, MessagePort>} ports to each of the others
   */
  constructor(device, ports) {
    this.#device = device;
    this.ports = ports;
    for (const [peer, port] of Object.entries(ports)) {
      /** @type {Message[]} */
      const inbox = [];
      this.#inboxes.set(Number(peer), inbox);
      port.onmessage = ({ data }) => {
        if (data.run < this.#run) return;
        inbox.push(data);
        this.#wake();
      };
    }
  }

  /** @param {number} run */
  begin(run) {
    this.#run = run;
    for (const inbox of this.#inboxes.values())
      inbox.splice(0, inbox.length, ...inbox.filter((message) => message.run >= run));
  }

  /** @param {Port} port */
  async exchange(port) {
    const { channel } = port.exchange;
    if (this.#over >= this.#run) throw this.#device.ended(port);
    for (let j = 0; j < port.to.length; j++) {
      const other = this.ports[port.to[j]];
      if (!other) continue;
      const data = port.copies(j);
      other.postMessage({ run: this.#run, channel, data }, [data.buffer]);
    }
    /** @type {Map<number, number>} the row of each sender that is still to come */
    const missing = new Map();
    for (let row = 0; row < port.from.length; row++) if (this.ports[port.from[row]]) missing.set(port.from[row], row);
    if (missing.size) await this.#wait(port, missing);
  }

  end() {
    for (const port of Object.values(this.ports)) port.postMessage({ run: this.#run, ended: true });
  }

  /**
   * A run is over: what waits here stops.
   * @param {number} [run]
   */
  fail(run = this.#run) {
    this.#over = run;
    this.#wake();
  }

  /**
   * Writes the rows that have come.
   * @param {Port} port
   * @param {Map<number, number>} missing
   */
  #take(port, missing) {
    for (const [sender, row] of missing) {
      const messages = this.#inboxes.get(sender) ?? [];
      const at = messages.findIndex(
        (message) => 'data' in message && message.channel === port.exchange.channel && message.run === this.#run,
      );
      if (at < 0) continue;
      const [message] = messages.splice(at, 1);
      if ('data' in message) port.write(row, message.data);
      missing.delete(sender);
    }
  }

  /**
   * @param {Port} port
   * @param {Map<number, number>} missing
   */
  async #wait(port, missing) {
    const { timeout } = this.#device;
    const begin = performance.now();
    let late = false;
    const expire = () => {
      late = true;
      this.#wake();
    };
    const timer = setTimeout(expire, Math.min(timeout * 1000, LONGEST));
    try {
      for (;;) {
        this.#take(port, missing);
        if (!missing.size) break;
        const others = [...missing.keys()];
        if (this.#over >= this.#run) throw this.#device.ended(port, others);
        if (late) throw this.#device.overdue(port, timeout, others);
        const gone = others.some((other) =>
          this.#inboxes.get(other)?.some((message) => 'ended' in message && message.run === this.#run),
        );
        if (gone) throw this.#device.overdue(port, (performance.now() - begin) / 1000, others);
        await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
      }
    } finally {
      clearTimeout(timer);
      this.#wake = () => {};
    }
  }
}
