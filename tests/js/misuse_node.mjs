// Runs misuse.mjs: node misuse_node.mjs LOADER BASE

import { misuses } from './misuse.mjs';

const [loader, base] = process.argv.slice(2);
const { wrong, count } = await misuses(await import(loader), base);
console.log(JSON.stringify({ wrong, count }));
process.exit();
