// A worker as one of several devices: what a page tells it when it starts the device, and how it reaches the others.

import { Device } from './exchange.js';
import { Grid } from './grid.js';
import { MessageTransport } from './message_ports.js';
import { SharedMemoryTransport } from './shared_memory.js';

/** @typedef {import('./exchange.js').ExchangeEvent} ExchangeEvent */

/**
 * How a device reaches the others: by memory that they share, or by a port to each.
 * @typedef {{mailboxes?: import('./shared_memory.js').Mailboxes, ports: Record<number, MessagePort>}} Connections
 */

/**
 * @typedef {object} Membership
 * @property {number} id of the device
 * @property {number} replicas
 * @property {number} partitions
 * @property {number} timeout
 * @property {string} source where the module came from
 * @property {boolean} reports whether the page wants to know of exchanges
 * @property {string} [lock] that the page waits for: it comes free when the worker ends
 * @property {Connections} connections
 */

/**
 * Makes this worker a device.
 * @param {Membership} membership
 * @param {(event: Omit<ExchangeEvent, 'device'>) => void} report
 */
export async function join({ id, replicas, partitions, timeout, source, reports, lock, connections }, report) {
  if (lock) await new Promise((held) => navigator.locks.request(lock, () => (held(undefined), new Promise(() => {}))));
  const device = new Device(id, new Grid(replicas, partitions), timeout, source, reports ? report : undefined);
  connect(device, connections);
  return device;
}

/**
 * Connects a device with all others, or anew with those that have been started again.
 * @param {Device} device
 * @param {Connections} connections
 */
export function connect(device, { mailboxes, ports }) {
  if (mailboxes) device.transport = new SharedMemoryTransport(device, mailboxes);
  else if (device.transport instanceof MessageTransport)
    device.transport = new MessageTransport(device, { ...device.transport.ports, ...ports });
  else device.transport = new MessageTransport(device, ports);
  device.blocks = !!mailboxes;
}
