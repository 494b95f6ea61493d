// Why a request is not answered as it was meant: the status and what the body of the answer says.

/**
 * @typedef {{field?: string, expected?: string, given?: string}} Details the input that is wrong, what it must be, and
 *   what it is
 */

/** An answer other than 200. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {Details} [details]
   * @param {Record<string, string>} [headers] of the answer
   */
  constructor(status, message, details = {}, headers = {}) {
    super(message);
    this.status = status;
    this.details = details;
    this.headers = headers;
  }
}

/** The body was read, and is not what the model takes. @type {(message: string, details: Details) => never} */
export function unfit(message, details) {
  throw new Refusal(422, message, details);
}

/** The body cannot be read. @type {(message: string, details?: Details) => never} */
export function unreadable(message, details) {
  throw new Refusal(400, message, details);
}
