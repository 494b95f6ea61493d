// Service workers, shared workers and worklets that load modules: what a page does with each of them.

/** @param {{postMessage: (message: any) => void}} port @param {EventTarget} target @param {any} question */
const asked = (port, target, question) =>
  new Promise((resolve, reject) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = ({ data }) => resolve(data);
    target.addEventListener('error', (event) => reject(new Error(event.message ?? 'it has failed')), { once: true });
    port.postMessage({ question, port: channel.port2 }, [channel.port2]);
  });

/** What a service worker answers. */
export async function inServiceWorker(_, base, { script, type, question }) {
  const scope = `/js/scopes/${Math.random()}/`;
  const registration = await navigator.serviceWorker.register(script, { type, scope });
  try {
    const worker = registration.installing ?? registration.waiting ?? registration.active;
    return await asked(worker, worker, question);
  } finally {
    await registration.unregister();
  }
}

/** What a shared worker answers. */
export async function inSharedWorker(_, base, { script, type, question }) {
  const worker = new SharedWorker(script, { type, name: String(Math.random()) });
  worker.port.start();
  return asked(worker.port, worker, question);
}

/**
 * The samples that a processor gives for what it hears, and what it says beside.
 * @param {{script: string, files: Record<string, string>, blocks: number, question: any}} argument
 */
export async function inAudioWorklet(_, base, { script, files, blocks, question }) {
  const context = new OfflineAudioContext(1, 128 * blocks, 48000);
  await context.audioWorklet.addModule(script);
  const fetched = Object.entries(files).map(async ([name, path]) => {
    const response = await fetch(path);
    return [name, path.endsWith('.wasm') ? await WebAssembly.compileStreaming(response) : await response.arrayBuffer()];
  });
  const processorOptions = { ...Object.fromEntries(await Promise.all(fetched)), question };
  const node = new AudioWorkletNode(context, 'model', { processorOptions });
  const said = new Promise((resolve, reject) => {
    node.port.onmessage = ({ data }) => resolve(data);
    node.onprocessorerror = () => reject(new Error('the processor has failed'));
  });
  const buffer = context.createBuffer(1, 128 * blocks, 48000);
  buffer.getChannelData(0).forEach((_, i, samples) => (samples[i] = Math.sin(i / 9) + i / 1000));
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(node).connect(context.destination);
  source.start();
  const answer = await said;
  const rendered = await context.startRendering();
  return { answer, heard: Array.from(buffer.getChannelData(0)), given: Array.from(rendered.getChannelData(0)) };
}
