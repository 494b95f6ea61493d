// Runs a function of replicas.mjs: node replicas_node.mjs LOADER BASE FUNCTION ARGUMENT

import { readdirSync } from 'node:fs';
import * as replicas from './replicas.mjs';

const [loader, base, name, argument] = process.argv.slice(2);
const threads = () => readdirSync('/proc/self/task').length;
const api = await import(loader);
// Node's own threads come with the first request and the first worker.
await replicas.warm(api, base);
const before = threads();
const outcome = await replicas[name](api, base, JSON.parse(argument));
for (let i = 0; i < 100 && threads() > before; i++) await new Promise((resolve) => setTimeout(resolve, 50));
process.stdout.write(JSON.stringify({ outcome, left: Math.max(0, threads() - before) }), () => process.exit());
