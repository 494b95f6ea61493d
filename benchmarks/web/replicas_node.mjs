// node replicas_node.mjs LOADER: measures the job on standard input, see replicas.js.

import { readFileSync } from 'node:fs';
import { measure } from './replicas.js';

const job = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(await measure(await import(process.argv[2]), job)));
