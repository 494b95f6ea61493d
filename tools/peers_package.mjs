// Writes the libraries that xla_wasm races with on the page of figures, as its worker imports them:
// node tools/peers_package.mjs TOOLS FOLDER. TOOLS has them under peers/, and esbuild under esbuild/.
//
// peers.json says what each is called, its version, and the bytes of its files. What is large is packed here, since
// hosts of static files do not pack WebAssembly.

import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';

const [tools, folder] = process.argv.slice(2, 4).map((path) => resolve(path));
const packages = join(tools, 'peers', 'node_modules');
const esbuild = createRequire(join(tools, 'esbuild', 'x.js'))('esbuild');

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const put = (name, data) => writeFileSync(join(folder, name), data);
const library = (...path) => readFileSync(join(packages, ...path));
/** What of its package is read: its version, and that of what computes. */
const version = (name) => JSON.parse(library(name, 'package.json').toString()).version;

put('ort.mjs', library('onnxruntime-web', 'dist', 'ort.wasm.bundle.min.mjs'));
put('ort.wasm.gz', gzipSync(library('onnxruntime-web', 'dist', 'ort-wasm-simd-threaded.wasm'), { level: 9 }));
esbuild.buildSync({
  stdin: {
    contents: "export * from '@tensorflow/tfjs-core'; export { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';",
    resolveDir: packages,
  },
  outfile: join(folder, 'tfjs.mjs'),
  bundle: true,
  minify: true,
  format: 'esm',
  platform: 'browser',
  legalComments: 'eof',
  logLevel: 'error',
});
put('tfjs.wasm', library('@tensorflow', 'tfjs-backend-wasm', 'dist', 'tfjs-backend-wasm-simd.wasm'));
for (const name of ['ort.mjs', 'tfjs.mjs']) put(`${name}.gz`, gzipSync(readFileSync(join(folder, name)), { level: 9 }));

const bytes = (...names) => names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
const about = {
  ort: {
    title: 'onnxruntime-web',
    version: version('onnxruntime-web'),
    bytes: bytes('ort.mjs.gz', 'ort.wasm.gz'),
  },
  tfjs: {
    title: 'TensorFlow.js',
    version: version('@tensorflow/tfjs-backend-wasm'),
    bytes: bytes('tfjs.mjs.gz', 'tfjs.wasm'),
  },
};
put('peers.json', `${JSON.stringify(about, null, 1)}\n`);
console.log(`${folder}:`, ...Object.values(about).map((peer) => `${peer.title} ${peer.version} (${peer.bytes} bytes)`));
