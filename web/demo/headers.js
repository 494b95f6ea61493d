// A service worker. It keeps every answer of this site and gives it again when there is no network, and for hosts that
// cannot be told to send headers it adds those of cross-origin isolation, which threads and exact timers need.
// isolation.js registers it.

const scope = /** @type {any} */ (self);
const KEPT = 'xla_wasm pages';

scope.addEventListener('install', () => scope.skipWaiting());
scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(scope.clients.claim()));

scope.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  if (new URL(request.url).origin !== scope.location.origin) return;
  // What only the cache may answer cannot be fetched from here.
  if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
  event.respondWith(answered(request, (work) => event.waitUntil(work)));
});

// What a page fetched before it had this worker.
scope.addEventListener('message', (/** @type {any} */ event) => {
  const urls = /** @type {string[]} */ (event.data?.keep ?? []).filter(
    (url) => new URL(url).origin === scope.location.origin,
  );
  event.waitUntil(
    Promise.all(
      urls.map((url) =>
        // The browser has it, so the network need not give it again.
        answered(new Request(url, { cache: 'force-cache' }), event.waitUntil.bind(event)).catch(() => {}),
      ),
    ),
  );
});

/**
 * The server's answer, or the one that was kept.
 * @param {Request} request
 * @param {(work: Promise<unknown>) => void} wait keeps the worker alive
 */
async function answered(request, wait) {
  let answer;
  try {
    answer = await fetch(request);
  } catch (error) {
    const kept = await (await caches.open(KEPT)).match(request, { ignoreVary: true });
    if (kept) return kept;
    throw error;
  }
  // A redirect that the browser is to follow by itself cannot be read, and needs no headers.
  if (answer.status === 0) return answer;
  const made = isolated(answer);
  if (request.method === 'GET' && answer.status === 200 && !answer.redirected) wait(keep(request, made.clone()));
  return made;
}

/** @param {Response} answer */
function isolated(answer) {
  const headers = new Headers(answer.headers);
  // The body that this gets is unpacked already, and longer.
  if (headers.has('Content-Encoding')) for (const name of ['Content-Encoding', 'Content-Length']) headers.delete(name);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  headers.set('Cross-Origin-Resource-Policy', 'same-origin');
  const empty = [204, 205, 304].includes(answer.status);
  return new Response(empty ? null : answer.body, { status: answer.status, statusText: answer.statusText, headers });
}

/** @param {Request} request @param {Response} answer */
async function keep(request, answer) {
  try {
    await (await caches.open(KEPT)).put(request, answer);
  } catch {
    // There is no room, or the page went away in the middle.
  }
}
