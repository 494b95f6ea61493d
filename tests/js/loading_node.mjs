// Runs loading.mjs: node --expose-gc loading_node.mjs LOADER BASE. Also: weights go into the memory of the module
// without a second copy.

import { loading } from './loading.mjs';

const [loader, base] = process.argv.slice(2);
const api = await import(loader);
const wrong = await loading(api, base);
const held = [];
const options = {
  onProgress: ({ phase }) => phase === 'weights' && (globalThis.gc(), held.push(process.memoryUsage().arrayBuffers)),
};
const exe = await api.load(`${base}/big.wasm`, options);
const growth = Math.max(...held) - held[0];
if (growth > exe.manifest.sidecarBytes / 2)
  wrong.push(`buffers grew by ${growth} bytes while ${exe.manifest.sidecarBytes} came`);
console.log(JSON.stringify(wrong));
process.exit();
