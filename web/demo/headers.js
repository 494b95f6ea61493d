// A service worker for hosts that cannot be told to send headers: it adds those of cross-origin isolation, which
// threads and exact timers need, to every answer of this site. isolation.js registers it and reloads the page once; a
// server that sends them never gets here.

const scope = /** @type {any} */ (self);

scope.addEventListener('install', () => scope.skipWaiting());
scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(scope.clients.claim()));

scope.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  if (new URL(request.url).origin !== scope.location.origin) return;
  // What only the cache may answer cannot be fetched from here.
  if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
  event.respondWith(isolated(request));
});

/** @param {Request} request */
async function isolated(request) {
  const answer = await fetch(request);
  // A redirect that the browser is to follow by itself cannot be read, and needs no headers.
  if (answer.status === 0) return answer;
  const headers = new Headers(answer.headers);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  headers.set('Cross-Origin-Resource-Policy', 'same-origin');
  const empty = [204, 205, 304].includes(answer.status);
  return new Response(empty ? null : answer.body, { status: answer.status, statusText: answer.statusText, headers });
}
