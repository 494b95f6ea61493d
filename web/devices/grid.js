// How many devices a program runs on, and which of them is which. Mirrors xla_wasm/host/grid.py.

import { counted } from '../arrays.js';
import { ArgumentError, UnsupportedError } from '../errors.js';
import { Fields } from '../manifest.js';
import { DEVICES } from '../manifest_fields.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */
/** @typedef {number | {replicas?: number, partitions?: number}} Count how many devices: in all, or of each kind */

/**
 * The devices that a program runs on; null for a number that the host chooses.
 * @typedef {object} Devices
 * @property {number} offset where the host says which device this is: u32 replica, partition, number of replicas,
 *   number of partitions
 * @property {number | null} replicas
 * @property {number | null} partitions
 * @property {number} least
 * @property {number | null} most
 * @property {'replicas' | 'partitions'} axis what a number of devices counts when nothing else is said
 */

export const MAX_DEVICES = DEVICES.least.high;

/**
 * Replicas times partitions: device `replica * partitions + partition` is partition `partition` of replica `replica`.
 */
export class Grid {
  /**
   * @param {number} replicas
   * @param {number} partitions
   */
  constructor(replicas, partitions) {
    this.replicas = replicas;
    this.partitions = partitions;
    this.count = replicas * partitions;
  }

  /**
   * Returns the four numbers that a module gets: its replica, its partition, and the numbers of replicas and
   * partitions.
   * @param {number} device
   */
  ids(device) {
    return [Math.floor(device / this.partitions), device % this.partitions, this.replicas, this.partitions];
  }

  /**
   * The device, for a message.
   * @param {number} device
   */
  name(device) {
    const [replica, partition] = this.ids(device);
    return `device ${device} (replica ${replica}, partition ${partition})`;
  }
}

export const ONE_DEVICE = new Grid(1, 1);

/**
 * The devices of a manifest, checked; null if the program is the same on all.
 * @param {Manifest} manifest
 * @returns {Devices | null}
 */
export function readDevices({ devices, memoryBytes }) {
  if (devices === null) return null;
  const item = new Fields(devices, 'devices', DEVICES);
  const count = (/** @type {string} */ key) => (item.get(key) === null ? null : item.int(key));
  return {
    offset: item.address('offset', memoryBytes),
    replicas: count('replicas'),
    partitions: count('partitions'),
    least: item.int('least'),
    most: count('most'),
    axis: /** @type {Devices['axis']} */ (item.text('axis')),
  };
}

/**
 * How many devices have a part of the global arrays of a program; undefined if nobody says so.
 * @param {Manifest} manifest
 * @returns {number | undefined}
 */
const sharded = ({ parameters, results }) =>
  [...parameters, ...results].map(({ raw }) => raw.shards?.starts?.length).find(Number.isInteger);

const CHOOSE = ': choose such a number of devices';

/**
 * The grid that a caller asks for; ArgumentError where it does not fit what the program says.
 * @param {Manifest} manifest
 * @param {Count} asked
 * @returns {Grid}
 */
export function makeGrid(manifest, asked) {
  const devices = readDevices(manifest);
  const isCount = (/** @type {any} */ n) => Number.isInteger(n) && n >= 1 && n <= MAX_DEVICES;
  const {
    replicas: r,
    partitions: p,
    ...rest
  } = /** @type {any} */ (typeof asked === 'object' && asked !== null ? asked : {});
  if (
    typeof asked === 'number'
      ? !isCount(asked)
      : (r === undefined && p === undefined) ||
        Object.keys(rest).length ||
        [r, p].some((n) => n !== undefined && !isCount(n))
  ) {
    throw new ArgumentError(
      `devices is how many there are, or {replicas, partitions}, all of 1 or more; got ${JSON.stringify(asked)}`,
    );
  }
  for (const [what, number, fixed] of /** @type {const} */ ([
    ['replicas', r, devices?.replicas],
    ['partitions', p, devices?.partitions],
  ])) {
    if (number !== undefined && fixed && number !== fixed)
      throw new ArgumentError(
        `'${manifest.name}' is compiled for ${counted(fixed, what.slice(0, -1))}, got ${number}: leave it out`,
      );
  }
  let replicas = r ?? devices?.replicas;
  let partitions = p ?? devices?.partitions;
  if (typeof asked === 'number') {
    if (replicas) partitions ??= Math.max(1, Math.floor(asked / replicas));
    else if (partitions) replicas = Math.max(1, Math.floor(asked / partitions));
    else [replicas, partitions] = devices?.axis === 'partitions' ? [1, asked] : [asked, 1];
  }
  const grid = new Grid(replicas ?? 1, partitions ?? 1);
  const count = typeof asked === 'number' ? asked : grid.count;
  if (manifest.undivided && count > 1)
    throw new UnsupportedError(`'${manifest.name}' runs on one device: ${manifest.undivided}`);
  const parts = sharded(manifest);
  if (parts && parts !== count)
    throw new ArgumentError(`'${manifest.name}' runs on ${counted(parts, 'device')}, got ${count}${CHOOSE}`);
  if (count !== grid.count || !fits(devices, grid)) {
    const both =
      count === grid.count && grid.replicas > 1 && grid.partitions > 1
        ? ` = ${grid.replicas} x ${grid.partitions} (replicas x partitions)`
        : '';
    throw new ArgumentError(`'${manifest.name}' runs on ${wanted(devices)}, got ${count}${both}${CHOOSE}`);
  }
  return grid;
}

/**
 * Returns true if a program can run on this grid.
 * @param {Devices | null} devices
 * @param {Grid} grid
 */
export function fits(devices, { replicas, partitions, count }) {
  return (
    !devices ||
    ([null, replicas].includes(devices.replicas) &&
      [null, partitions].includes(devices.partitions) &&
      devices.least <= count &&
      count <= (devices.most ?? count))
  );
}

/**
 * The numbers of devices that would do.
 * @param {Devices | null} devices
 */
export function wanted(devices) {
  if (!devices) return 'any number of devices';
  const { replicas, partitions, least, most } = devices;
  if (replicas && partitions)
    return (
      `${counted(replicas * partitions, 'device')} (${counted(replicas, 'replica')} x ` +
      `${counted(partitions, 'partition')})`
    );
  const known = replicas ?? partitions ?? 1;
  const text =
    least === most
      ? counted(least, 'device')
      : most === null
        ? `${least} or more devices`
        : `${least} to ${most} devices`;
  return known > 1 ? `${text}, a multiple of ${known} ${replicas ? 'replicas' : 'partitions'}` : text;
}
