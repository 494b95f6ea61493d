// What every page of the site does first: it asks for cross-origin isolation where the server did not give it.

const KEY = 'xla_wasm headers';

/** Registers headers.js and reloads, once; a second time would not help where the first did not. */
async function isolate() {
  if (globalThis.crossOriginIsolated || !navigator.serviceWorker) return;
  try {
    if (sessionStorage.getItem(KEY)) return;
    await navigator.serviceWorker.register(new URL('headers.js', import.meta.url));
    await navigator.serviceWorker.ready;
    sessionStorage.setItem(KEY, 'reloaded');
    location.reload();
  } catch (error) {
    // Storage or service workers are off. The pages work without, on one thread and with a coarse clock.
    console.info('no cross-origin isolation:', error);
  }
}

isolate();
