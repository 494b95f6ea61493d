// Runs a function of strangers.mjs: node strangers_node.mjs LOADER BASE FUNCTION ARGUMENT

import * as strangers from './strangers.mjs';

const [loader, base, name, argument] = process.argv.slice(2);
// What the tests themselves do wrong is no longer heard of once they listen to what nobody handles.
const outcome = await strangers[name](await import(loader), base, JSON.parse(argument)).catch((error) => ({ wrong: [error.stack] }));
process.stdout.write(JSON.stringify(outcome), () => process.exit());
