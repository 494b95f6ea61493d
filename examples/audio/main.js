// The page's side: it compiles the module and hands it to the audio thread, which has no `fetch`.

/** A node that is ready to play: what goes in comes out with an echo. */
export async function room(context) {
  const [module] = await Promise.all([
    WebAssembly.compileStreaming(fetch(new URL('./model.wasm', import.meta.url))),
    context.audioWorklet.addModule(new URL('./processor.js', import.meta.url)),
  ]);
  const node = new AudioWorkletNode(context, 'room', {
    processorOptions: { module },
    channelCount: 1,
    channelCountMode: 'explicit',
  });
  const said = await new Promise((resolve) => (node.port.onmessage = ({ data }) => resolve(data)));
  if (said !== 'ready') throw new Error(said);
  return node;
}

/** A clap of the hands. */
export function clap(context) {
  const buffer = context.createBuffer(1, context.sampleRate / 50, context.sampleRate);
  const samples = buffer.getChannelData(0);
  for (let i = 0; i < samples.length; i++) samples[i] = (Math.random() - 0.5) * (1 - i / samples.length);
  return new AudioBufferSourceNode(context, { buffer });
}

const [button, wet, status] = ['clap', 'wet', 'status'].map((id) => document.getElementById(id));
let playing;

async function play() {
  // A browser lets a page make sound after a click only.
  playing ??= (async () => {
    const context = new AudioContext();
    const node = await room(context);
    node.connect(context.destination);
    return { context, node };
  })();
  const { context, node } = await playing;
  node.parameters.get('wet').value = wet.valueAsNumber;
  const source = clap(context);
  source.connect(node);
  source.start();
  status.textContent = `${context.sampleRate / 1000} kHz, ${((128 / context.sampleRate) * 1000).toFixed(1)} ms for a block`;
}

button?.addEventListener('click', () => play().catch((error) => (status.textContent = error.message)));
