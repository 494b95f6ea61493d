// How a run went on each device, and which error is the one to tell.

import { ArgumentError, ExchangeError } from '../errors.js';
import { WorkerLost } from '../remote.js';
import { late } from '../limits/budget.js';

/** @typedef {import('./grid.js').Grid} Grid */
/** @typedef {{value?: any, error?: any}} Outcome */

/**
 * Returns true for an error of the device itself, whose memory cannot be trusted after that.
 * @param {any} error
 */
export const isOwn = (error) => !(error instanceof ExchangeError) && !(error instanceof ArgumentError);

/**
 * The error of a run that failed on some devices; there is no outcome of those that have not ended.
 * @param {Grid} grid
 * @param {(Outcome | undefined)[]} outcomes
 * @param {number[]} failures in the order in which they happened
 * @param {number} seconds since the run began
 */
export function explain(grid, outcomes, failures, seconds) {
  const errorOf = (/** @type {number} */ device) => outcomes[device]?.error;
  const own = failures.find(
    (device) => !(errorOf(device) instanceof ExchangeError) && !(errorOf(device) instanceof WorkerLost),
  );
  if (own !== undefined) {
    const { constructor: Kind, message, cause } = errorOf(own);
    return new Kind(`device ${own}: ${message}`, { cause });
  }
  const lost = failures.find((device) => errorOf(device) instanceof WorkerLost);
  if (lost === undefined) {
    const late = failures.find((device) => errorOf(device).wait?.ended === false) ?? failures[0];
    const { message, wait } = errorOf(late);
    if (!wait?.others.length) return errorOf(late);
    const [before] = message.split(` in ${wait.where}`);
    return new ExchangeError(`${before} in ${whereabouts(outcomes, late, new Set([late]))}`);
  }
  const waiting = failures.find((device) => errorOf(device).wait?.others.includes(lost));
  if (waiting === undefined)
    return new ExchangeError(`${grid.name(lost)} did not come to the end of its run: ${errorOf(lost).message}`);
  return new ExchangeError(
    `${grid.name(waiting)} waited ${Number(seconds.toPrecision(2))} s in ` +
      `${whereabouts(outcomes, waiting, new Set([waiting]))}`,
  );
}

/**
 * The error of a run whose time is over: who waits for whom says more than that it was too long.
 * @param {Grid} grid
 * @param {(Outcome | undefined)[]} outcomes
 * @param {number} seconds that it had
 */
export function explainLate(grid, outcomes, seconds) {
  const waiting = outcomes.findIndex((outcome) => outcome?.error?.wait?.others.length);
  if (waiting >= 0)
    return new ExchangeError(
      `${grid.name(waiting)} waited ${seconds} s in ${whereabouts(outcomes, waiting, new Set([waiting]))}`,
    );
  const busy = [...outcomes.keys()].filter((device) => !outcomes[device]);
  return late(
    'the run',
    seconds,
    busy.length
      ? `: ${busy.map((device) => grid.name(device)).join(', ')} did not end, and the next call starts workers ` +
          `in their place`
      : '',
  );
}

/**
 * Returns the exchange that a device waits in, for whom, and where those wait, as far as nobody has told yet.
 * @param {(Outcome | undefined)[]} outcomes
 * @param {number} device
 * @param {Set<number>} told
 * @returns {string}
 */
function whereabouts(outcomes, device, told) {
  const { where, others } = /** @type {Outcome} */ (outcomes[device]).error.wait;
  const parts = others.map((/** @type {number} */ other) => {
    const outcome = outcomes[other];
    const isTold = told.has(other);
    told.add(other);
    if (isTold) return `device ${other}`;
    if (outcome && !outcome.error) return `device ${other}, which ended its run`;
    if (outcome?.error instanceof WorkerLost) return `device ${other}, which never arrived: ${outcome.error.message}`;
    if (outcome?.error.wait?.others.length)
      return `device ${other}, which waits in ${whereabouts(outcomes, other, told)}`;
    return `device ${other}, which never arrived`;
  });
  return `${where} for ${parts.join('; ')}`;
}
