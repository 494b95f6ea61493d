// all-MiniLM-L6-v2 behind HTTP: POST /embed takes a text and gives its vector, POST / takes tokens, as GET / says.
import { load } from './model.js';
import { Tokenizer } from './tokenizer.js';
import { handler } from './xla-wasm/http/handler.js';

const TOKENS = 128;
const encode = handler((env) => load({ assets: env.ASSETS }));

/** @type {Promise<Tokenizer> | undefined} */
let loading;

async function readVocabulary(env) {
  const response = await env.ASSETS.fetch('https://assets.invalid/vocab.txt');
  if (!response.ok) throw new Error(`vocab.txt is not among the assets: HTTP ${response.status}`);
  return new Tokenizer(await response.text());
}

async function embed(request, env, context) {
  if (request.method !== 'POST')
    return Response.json(
      { error: { status: 405, message: 'POST a text' } },
      { status: 405, headers: { Allow: 'POST' } },
    );
  const text = await request.text();
  if (!text.trim() || text.length > 10_000) {
    return Response.json(
      { error: { status: 422, message: `expected a text of 1 to 10000 characters, got ${text.length}` } },
      { status: 422 },
    );
  }
  if (!loading) {
    // The next request tries again if this one cannot read it; others wait for it too, so it goes on if this client
    // does not.
    loading = readVocabulary(env).catch((error) => {
      loading = undefined;
      throw error;
    });
    context.waitUntil(loading);
  }
  const numbers = (await loading).encode(text, TOKENS);
  const ids = [...numbers, ...Array(TOKENS - numbers.length).fill(0)];
  const headers = new Headers({ 'Content-Type': 'application/json' });
  if (request.headers.has('Accept')) headers.set('Accept', request.headers.get('Accept'));
  const tokens = new Request(new URL('/', request.url), {
    method: 'POST',
    headers,
    body: JSON.stringify({ ids, length: numbers.length }),
  });
  return encode(tokens, env, context);
}

export default {
  fetch: (request, env, context) =>
    (new URL(request.url).pathname === '/embed' ? embed : encode)(request, env, context),
};
