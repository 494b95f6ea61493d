// Serves the worker of a folder under workerd, as `wrangler deploy` would upload it: serve_worker.mjs TOOLS FOLDER
// [MODULES]
//
// TOOLS is where miniflare is installed, and wrangler.jsonc in the folder names the rest. The modules are the
// JavaScript and WebAssembly of the folder as they are, or those of another, to which a bundler has written them.
// Prints the address and the milliseconds that the start took, and ends with its standard input.

import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve, sep } from 'node:path';

const [tools, folder, modules = folder] = process.argv.slice(2).map((path) => resolve(path));
const { Miniflare, Log, LogLevel } = createRequire(join(tools, 'x.js'))('miniflare');
const text = readFileSync(join(folder, 'wrangler.jsonc'), 'utf8');
const { main, compatibility_date, compatibility_flags, assets } = JSON.parse(text.replace(/^\s*\/\/.*$/gm, ''));

/** @type {Record<string, string>} */
const TYPES = { js: 'ESModule', wasm: 'CompiledWasm' };
const files = readdirSync(modules, { recursive: true })
  .map(String)
  .filter((file) => /\.(js|wasm)$/.test(file) && !file.includes('node_modules') && !file.startsWith(`assets${sep}`))
  // The first is the one that answers.
  .sort((a, b) => Number(b === main) - Number(a === main));
const began = performance.now();
const worker = new Miniflare({
  host: '127.0.0.1',
  port: 0,
  cf: false,
  log: new Log(LogLevel.ERROR),
  compatibilityDate: compatibility_date,
  compatibilityFlags: compatibility_flags,
  modulesRoot: modules,
  modules: files.map((file) => ({ type: TYPES[file.split('.').at(-1) ?? ''], path: join(modules, file) })),
  ...(assets && {
    assets: {
      directory: resolve(folder, assets.directory),
      binding: assets.binding,
      routerConfig: { has_user_worker: true, invoke_user_worker_ahead_of_assets: assets.run_worker_first === true },
    },
  }),
});
const url = await worker.ready;
console.log(`${url} ${(performance.now() - began).toFixed(1)}`);
process.stdin.resume().on('end', () => worker.dispose());
