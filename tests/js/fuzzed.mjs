// Tries forged artifacts, which tests/fuzz/javascript.py hands out one after another, in Node or in a page.

import { sample } from './samples.mjs';

const OWN = ['ArgumentError', 'ArtifactError', 'ExchangeError', 'LimitError', 'RunError', 'UnsupportedError'];
const TIMEOUT = 0.3;
const MODES = {
  here: { timeout: TIMEOUT, memoryLimit: 2 ** 26 },
  worker: { untrusted: true, timeout: TIMEOUT, memoryLimit: 2 ** 26 },
};

/** Asks for artifacts for ever, and says what came of each. */
export async function tryAll(api, base) {
  const lost = [];
  const note = (what) => lost.push(what?.reason ?? what?.error ?? what);
  if (globalThis.process?.on) for (const kind of ['unhandledRejection', 'uncaughtException']) process.on(kind, note);
  else for (const kind of ['unhandledrejection', 'error']) addEventListener(kind, note);
  for (let outcome = null; ; ) {
    const response = await fetch(`${base}/next`, { method: 'POST', body: JSON.stringify(outcome) });
    const bytes = new Uint8Array(await response.arrayBuffer());
    outcome = await tried(api, response.headers.get('X-Mode'), bytes);
    // What nobody handles is told after the turn in which it was lost.
    if (globalThis.setImmediate) await new Promise((resolve) => setImmediate(resolve));
    if (lost.length) outcome = { ...described(lost.splice(0)[0]), fault: true };
  }
}

/** How an artifact ends: `where` tells outcomes apart. */
async function tried(api, mode, bytes) {
  try {
    await use(api, mode, bytes);
    return { message: '', where: 'ok', fault: false };
  } catch (error) {
    const isOwn = error instanceof api.XlaWasmError && OWN.includes(error.name);
    // What a function of the loader says of an undefined value is no error of its own, whatever its class.
    const isSlip = /undefined is not|Cannot read prop|is not a function|is not iterable/.test(error?.message);
    return { ...described(error), fault: !isOwn || isSlip };
  }
}

/** An error by its message without what is the artifact's own, and the places in the loader that it comes from. */
function described(error) {
  const message = `${error?.name}: ${error?.message}`;
  const places = [...String(error?.stack).matchAll(/(\w+\.m?js)(?:\?[^:]*)?:(\d+):\d+/g)]
    .slice(0, 2)
    .map(([, file, line]) => `${file}:${line}`);
  const words = message
    .replaceAll(/'[^']*'|"[^"]*"|\[.*\]|\{.*\}/gs, '…')
    .replaceAll(/[\d.e+-]*\d/g, 'N')
    .slice(0, 60);
  return { message: message.slice(0, 300), where: `${words} ${places.join(' ')}` };
}

/** All that a page does with an artifact. */
async function use(api, mode, bytes) {
  const text = new TextDecoder().decode(bytes);
  const isGroup = mode === 'worker' && text.includes('"devices":{');
  const options = { ...MODES[mode], customCalls: { f: (x) => x } };
  if (isGroup) options.devices = 2;
  if (text.includes('"kind":"sidecar"')) options.weights = Float32Array.from({ length: 6 }, (_, i) => i / 4);
  const exe = await api.load(bytes, options);
  try {
    for (const leaf of exe.parameters.filter(({ kind }) => kind !== 'input')) {
      await exe.set(leaf.name, sample(leaf));
      await exe.get(leaf.name);
    }
    const given = exe.parameters.filter(({ kind }) => kind === 'input').map(sample);
    if (isGroup) {
      await exe.runReplicated([given, given]);
      return await exe.runGlobal(given);
    }
    const feeds = exe.manifest.requests.some(({ kind }) => kind === 'infeed')
      ? [{ infeed: Array(3).fill(Int32Array.of(1, 2, 3)), outfeed: () => {} }]
      : [];
    await exe.run(...given, ...feeds);
    await exe.runAsync(...given, ...feeds);
    await exe.profile(...given, ...feeds);
  } finally {
    exe.dispose();
  }
}
