// What every page of the site does first: it registers headers.js, which keeps what was fetched for visits without a
// network, and gives cross-origin isolation where the server did not. Modules that import this wait for it, so that
// what they and their workers fetch is kept.

const KEY = 'xla_wasm headers';
const PATIENCE = 3000; // milliseconds after which a page begins all the same

/** @param {ServiceWorkerContainer} container */
const controlled = (container) =>
  new Promise((resolve) => {
    if (container.controller) return resolve(undefined);
    container.addEventListener('controllerchange', resolve, { once: true });
    setTimeout(resolve, PATIENCE);
  });

async function register() {
  const container = navigator.serviceWorker;
  if (!container) return;
  try {
    const before = container.controller;
    const registration = await container.register(new URL('headers.js', import.meta.url));
    // A page that was reloaded past it has no controller, and gets none.
    if (!registration || (registration.active && !before)) return;
    await controlled(container);
    if (!globalThis.crossOriginIsolated && !sessionStorage.getItem(KEY)) {
      // Once: a second time would not help where the first did not.
      sessionStorage.setItem(KEY, 'reloaded');
      location.reload();
      return await new Promise(() => {});
    }
    if (before) return;
    const fetched = performance.getEntriesByType('resource').map(({ name }) => name);
    navigator.serviceWorker.controller?.postMessage({ keep: [location.href.replace(/#.*/, ''), ...fetched] });
  } catch (error) {
    // Storage or service workers are off. The pages work without, on one thread and with a coarse clock.
    console.info('no service worker:', error);
  }
}

await register();
