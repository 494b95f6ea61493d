// Runs a function of strangers.mjs: node strangers_node.mjs LOADER BASE FUNCTION ARGUMENT

import * as strangers from './strangers.mjs';

const [loader, base, name, argument] = process.argv.slice(2);
const outcome = await strangers[name](await import(loader), base, JSON.parse(argument));
process.stdout.write(JSON.stringify(outcome), () => process.exit());
