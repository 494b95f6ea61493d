// What publint finds of an npm package: node tools/npm_check.mjs TOOLS PACKAGE.tgz. TOOLS has publint under release/.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [tools, tarball] = process.argv.slice(2).map((path) => resolve(path));
const installed = createRequire(join(tools, 'release', 'x.js'));
const { publint } = await import(pathToFileURL(installed.resolve('publint')));
const { formatMessage } = await import(pathToFileURL(installed.resolve('publint/utils')));

/**
 * Of files that stand alone, publint guesses that they are CommonJS: two are scripts without imports and exports, and in
 * standalone.js it takes all that follows an address in a string for a comment.
 */
const standsAlone = ({ code, args, path }) =>
  code.startsWith('FILE_INVALID') &&
  [args.actualFilePath, ...path].some((part) => /(worker|standalone(\.classic)?)\.js$/.test(String(part)));

const { buffer, byteOffset, byteLength } = readFileSync(tarball);
const { messages, pkg } = await publint({
  pack: { tarball: buffer.slice(byteOffset, byteOffset + byteLength) },
  strict: true,
});
const found = messages
  .filter((message) => !standsAlone(message))
  .map((message) => `${message.type}: ${formatMessage(message, pkg)}`);
if (found.length) {
  console.error(found.join('\n'));
  process.exit(1);
}
