// A model behind HTTP: `handler` makes the function that answers requests, for edge runtimes, Deno and Bun.
//
//   import { load } from './model.js';
//   import { handler } from './xla-wasm/http/handler.js';
//   export default { fetch: handler(() => load()) };

import { answerForm, writeAnswer } from './answers.js';
import { JSON_TYPE, formOf, readBody, readInputs } from './bodies.js';
import { ArgumentError, UnsupportedError } from '../errors.js';
import { POLICY, page } from './page.js';
import { preferred } from './media.js';
import { Refusal } from './refusal.js';
import { isDynamic, sizes, slots } from './slots.js';

/**
 * A model that `load` gave, by `model.js` or by the loader itself.
 * @typedef {object} Served
 * @property {(...arrays: any[]) => any} run takes an array for each input, and gives the results
 * @property {(name: never) => any} get gives a copy of a state
 * @property {(name: never, value: never) => void} set sets a state
 * @property {import('../manifest.js').Manifest} manifest what the artifact says of itself
 */

/**
 * The object that a platform hands over beside the request.
 * @typedef {object} Context
 * @property {(promise: Promise<any>) => void} [waitUntil] keeps the worker until a promise is settled
 */

const METHODS = new Map([
  ['/', 'GET, HEAD, POST'],
  ['/healthz', 'GET, HEAD'],
]);
const TEXT = 'text/plain; charset=utf-8';

/**
 * Answers requests with the results of a model: `GET /` says what it takes and gives, `POST /` runs it on JSON, .npy,
 * .npz, a form or raw bytes, `GET /healthz` says whether it is ready. Errors are JSON too. Each run begins with the
 * states that the model was loaded with.
 *
 * `load` is called for the first request and has what the platform passes beside it. It is called again for the next
 * request if it failed, after a run that trapped, and for every run of a model that keeps something inside which cannot
 * be set, as a random state.
 * @param {(env?: any, context?: any) => Served | Promise<Served>} load
 * @param {{base?: string}} [options] `base` is the path that the model lies at, as `/api/model`, where that is not the
 *   root
 * @returns {(request: Request, env?: any, context?: any) => Promise<Response>}
 */
export function handler(load, { base = '' } = {}) {
  const root = base.replace(/\/$/, '');
  if (typeof load !== 'function')
    throw new ArgumentError(
      `handler takes a function that loads the model, as in handler(() => load()); got ${typeof load}`,
    );
  /** @type {Promise<Service> | undefined} */
  let loading;

  /** @param {any} env @param {Context} [context] */
  const service = (env, context) => {
    if (!loading) {
      const began = (loading = (async () => new Service(await load(env, context)))());
      const settled = began.then(
        () => {},
        () => void (loading === began && (loading = undefined)),
      );
      // Others wait for it too, so it goes on if the client of this request does not.
      context?.waitUntil?.(settled);
    }
    return loading.catch((error) => {
      console.error(error);
      throw new Refusal(503, `the model cannot be loaded: ${error?.message ?? error}`, {}, { 'Retry-After': '1' });
    });
  };

  /** @param {Request} request @param {any} env @param {Context} [context] */
  const run = async (request, env, context) => {
    const { inputs, results } = await service(env, context);
    const form = formOf(request.headers, inputs);
    const type = answerForm(request.headers.get('Accept'), form.type, results);
    const given = await readInputs(inputs, form, await readBody(request, form.limit));
    let current = await service(env, context);
    // Another request had it while this one waited.
    while (current.spent) current = await service(env, context);
    if ((current.spent = current.once)) loading = undefined;
    try {
      const arrays = current.run(given);
      return reply(200, type, writeAnswer(type, results, arrays));
    } catch (error) {
      console.error(error);
      loading = undefined;
      throw new Refusal(500, `the model failed: ${/** @type {Error} */ (error).message}`);
    }
  };

  return async (request, env, context) => {
    const { pathname } = new URL(request.url);
    const path = pathname === root ? '/' : pathname.startsWith(`${root}/`) ? pathname.slice(root.length) : '';
    const asked = request.method === 'HEAD' ? 'GET' : request.method;
    let response;
    try {
      const methods = METHODS.get(path);
      if (!methods) throw new Refusal(404, `there is nothing at ${pathname}: the model is at ${root || '/'}`);
      if (!methods.includes(asked))
        throw new Refusal(405, `${pathname} takes ${methods}, not ${request.method}`, {}, { Allow: methods });
      if (asked === 'POST') response = await run(request, env, context);
      else {
        const current = await service(env, context);
        response = path === '/' ? current.describe(request.headers.get('Accept')) : reply(200, TEXT, 'ok\n');
      }
    } catch (error) {
      if (!(error instanceof Refusal)) console.error(error);
      const { status, message, details, headers } =
        error instanceof Refusal ? error : new Refusal(500, 'the server failed; its log says why');
      response = reply(status, JSON_TYPE, `${JSON.stringify({ error: { status, message, ...details } })}\n`, headers);
    }
    return request.method === 'HEAD' ? new Response(null, response) : response;
  };
}

/**
 * @param {number} status
 * @param {string} type
 * @param {string | Uint8Array} body
 * @param {Record<string, string>} [headers]
 */
function reply(status, type, body, headers) {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const fixed = { 'Content-Type': type, 'Content-Length': String(bytes.length), 'X-Content-Type-Options': 'nosniff' };
  return new Response(/** @type {Uint8Array<ArrayBuffer>} */ (bytes), { status, headers: { ...fixed, ...headers } });
}

/** A model that is loaded, and the states that it was loaded with. */
class Service {
  /** True once it has run, if it serves for one run only. */
  spent = false;

  /** @param {Served} model */
  constructor(model) {
    const { manifest } = model ?? {};
    if (typeof model?.run !== 'function' || !manifest)
      throw new ArgumentError('what handler was given to load a model gave none');
    const kinds = new Set(manifest.requests.map(({ kind }) => kind));
    const { least = 1, replicas, partitions } = manifest.devices ?? {};
    if (Math.max(least, replicas ?? 1, partitions ?? 1) > 1)
      throw new UnsupportedError(`'${manifest.name}' runs on several devices, which one request does not have`);
    for (const kind of ['infeed', 'outfeed', 'send', 'recv']) {
      if (kinds.has(kind))
        throw new UnsupportedError(
          `'${manifest.name}' has ${kind}, and a request ends nothing that comes or goes during a run`,
        );
    }
    this.model = model;
    this.once = manifest.stateful;
    const { inputs, results } = slots(manifest);
    this.inputs = inputs;
    this.results = results;
    const states = manifest.parameters.filter((leaf) => leaf.kind === 'state');
    this.states = states.map(
      ({ name }) => /** @type {[never, never]} */ ([name, model.get(/** @type {never} */ (name))]),
    );
  }

  /** @param {import('./slots.js').Given[]} given @returns {import('./slots.js').Given[]} */
  run(given) {
    const { model, inputs, results } = this;
    for (const [name, value] of this.states) model.set(name, value);
    const answer = model.run(
      ...given.map(({ array, shape }, i) => (isDynamic(inputs[i]) ? Object.assign(array, { shape }) : array)),
    );
    if (typeof answer?.then === 'function')
      throw new UnsupportedError('the model runs in a worker: load it without the option worker');
    const arrays = Array.isArray(answer) ? answer : results.map(({ name }) => answer[name]);
    return arrays.map((array, i) => ({ array, shape: array.shape ?? results[i].dimensions }));
  }

  /**
   * Returns the answer that describes the model: JSON for a program, a page for a browser.
   * @param {string | null} accept
   */
  describe(accept) {
    const { inputs, results } = this;
    const { name } = this.model.manifest;
    const vary = { Vary: 'Accept' };
    if (preferred(accept, [JSON_TYPE, 'text/html']) === 'text/html') {
      return reply(200, 'text/html; charset=utf-8', page(name, inputs, results), {
        ...vary,
        'Content-Security-Policy': POLICY,
      });
    }
    const list = (/** @type {import('./slots.js').Slot[]} */ items) =>
      items.map((slot) => ({ name: slot.name, type: slot.type, shape: sizes(slot) }));
    return reply(200, JSON_TYPE, `${JSON.stringify({ name, inputs: list(inputs), results: list(results) })}\n`, vary);
  }
}
