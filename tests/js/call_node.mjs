// Calls a function of a script beside this one: node call_node.mjs LOADER BASE SCRIPT FUNCTION ARGUMENT
// Of a script that says how to warm up, no thread may be left afterwards.

import { readdirSync } from 'node:fs';

const [loader, base, script, name, argument] = process.argv.slice(2);
const threads = () => readdirSync('/proc/self/task').length;
const [api, called] = await Promise.all([import(loader), import(`./${script}`)]);
// Node's own threads come with the first request and the first worker.
await called.warm?.(api, base);
const before = called.warm ? threads() : Infinity;
let outcome;
try {
  outcome = await called[name](api, base, JSON.parse(argument));
} catch (error) {
  // Node would not hear of it where a test listens to what nobody handles.
  process.stderr.write(error.stack, () => process.exit(1));
  await new Promise(() => {});
}
for (let i = 0; i < 100 && threads() > before; i++) await new Promise((resolve) => setTimeout(resolve, 50));
process.stdout.write(JSON.stringify({ outcome, left: Math.max(0, threads() - before) }), () => process.exit());
