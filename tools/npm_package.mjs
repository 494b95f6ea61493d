// Makes the npm package of the loader: dist/npm/xla-wasm-VERSION.tgz, and the same unpacked in dist/npm/package/.
// It needs esbuild and TypeScript under the folder that the first argument names; the second is where to write.
//
// core.js is all that loading and running takes, in one file. What only some modules or options need stays in files of
// its own, which core.js imports on demand and which import core.js. worker.js stands alone, so that it can be copied
// anywhere; so does standalone.js, which is an ES module, and standalone.classic.js the same as a classic script.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, relative, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';

const [tools, output] = process.argv.slice(2).map((path) => resolve(path));
const root = resolve(import.meta.dirname, '..');
const web = join(root, 'web');
const folder = join(output, 'package');
const { build } = createRequire(join(tools, 'esbuild', 'x.js'))('esbuild');

/** What core.js has, in an order in which it compresses well. */
const CORE = ['errors', 'features', 'manifest', 'source', 'executor', 'load', 'arrays'];
const ON_DEMAND = `
  remote bytes parts weights/weights arrays/dynamic arrays/layouts arrays/orders arrays/structures
  devices/exchange devices/replicated devices/shards diagnostics/hints diagnostics/shown
  limits/budget limits/slices limits/untrusted requests/callbacks requests/feeds requests/host requests/requests
  threads/threads http/handler`
  .trim()
  .split(/\s+/);
/** Where a file of web/ lies in the package: all in one folder, for short addresses, but those of http/. */
const place = (name) => (name.startsWith('http/') ? name : basename(name));
const SHARED = {
  bundle: true,
  format: 'esm',
  minify: true,
  target: 'es2022',
  legalComments: 'none',
  absWorkingDir: web,
  outdir: folder,
};

/** Keeps core.js and what it imports on demand apart; `top` is where core.js lies as seen from what is made. */
const apart = (top) => ({
  name: 'apart',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path, kind, importer, resolveDir }) => {
      if (kind === 'entry-point' || importer === '<stdin>') return undefined;
      const name = relative(web, join(resolveDir, path)).replace(/\.js$/, '');
      // What starts the worker has to stay beside it.
      if (kind === 'dynamic-import' || name === 'remote') return { path: `${top}/${place(name)}.js`, external: true };
      const isCore = CORE.some((core) => relative(web, importer) === `${core}.js`);
      return !isCore && CORE.includes(name) ? { path: `${top}/core.js`, external: true } : undefined;
    });
  },
});

/** What stands alone starts no workers, or those alone that help a worker, of which it is itself the script. */
const alone = {
  name: 'alone',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\/(remote|replicated)\.js$/ }, () => ({ path: 'none', namespace: 'none' }));
    onLoad({ filter: /./, namespace: 'none' }, () => ({ contents: 'export const start = undefined;' }));
  },
};

/**
 * Has core.js export what other files of the package import under the names that it has inside, and nothing that none of
 * them imports. Writes xla_wasm.js, where things have the names that others know.
 */
function shortenNames() {
  const core = join(folder, 'core.js');
  const text = readFileSync(core, 'utf8');
  const [clause] = /(?<=export\{)[^{}]+(?=\};\s*$)/.exec(text);
  const inside = Object.fromEntries(clause.split(',').map((item) => item.split(' as ').toReversed()));
  const statements = readFileSync(join(web, 'xla_wasm.js'), 'utf8').match(/(?<=^export \{)[^}]+/gm);
  const known = statements.flatMap((names) => names.match(/\w+/g));
  const used = new Set(known.map((name) => inside[name]));
  const rename = (_, name, local = name) => {
    used.add(inside[name]);
    return `${inside[name]} as ${local}`;
  };
  for (const path of ON_DEMAND.map((name) => join(folder, `${place(name)}.js`))) {
    const shortened = readFileSync(path, 'utf8').replace(/(?<=import\{)[^{}]+(?=\}from"\.\.?\/core\.js")/g, (names) =>
      names.replace(/([$\w]+)(?: as ([$\w]+))?/g, rename),
    );
    writeFileSync(path, shortened);
  }
  writeFileSync(core, text.replace(clause, [...used].join()));
  const exported = known.map((name) => `${inside[name]} as ${name}`);
  writeFileSync(join(folder, 'xla_wasm.js'), `export{${exported}}from"./core.js";\n`);
}

rmSync(output, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const everything = CORE.map((name) => `export * from './${name}.js';`).join('\n');
await build({
  ...SHARED,
  outdir: undefined,
  outfile: join(folder, 'core.js'),
  stdin: { contents: everything, resolveDir: web },
  plugins: [apart('.')],
});
for (const top of ['.', '..']) {
  const entryPoints = ON_DEMAND.filter((name) => place(name).includes('/') === (top === '..')).map((name) => ({
    in: `${name}.js`,
    out: place(name),
  }));
  await build({ ...SHARED, entryPoints, plugins: [apart(top)] });
}
await build({ ...SHARED, entryPoints: ['worker.js', 'standalone.js'], plugins: [alone] });
await build({
  ...SHARED,
  outdir: undefined,
  outfile: join(folder, 'standalone.classic.js'),
  entryPoints: ['standalone.js'],
  format: 'iife',
  globalName: 'xlaWasm',
  plugins: [alone],
  logOverride: { 'empty-import-meta': 'silent' },
});
shortenNames();

const options =
  '--allowJs --checkJs --strict --declaration --emitDeclarationOnly --target es2022 --module esnext --lib ' +
  'es2022,dom,dom.iterable';
const tsc = join(tools, 'node_modules', 'typescript', 'bin', 'tsc');
const entries = ['xla_wasm.js', 'standalone.js', 'http/handler.js', 'parts.js'].map((name) => join(web, name));
execFileSync(process.execPath, [tsc, ...entries, ...options.split(' '), '--outDir', join(folder, 'types')], {
  stdio: 'inherit',
});

// What JSDoc imports types from: TypeScript does not copy declarations.
cpSync(join(web, 'models.d.ts'), join(folder, 'types', 'models.d.ts'));

const description = JSON.parse(readFileSync(join(web, 'package.json'), 'utf8'));
const [, version] = /__version__ = "(.+)"/.exec(readFileSync(join(root, 'xla_wasm', '__init__.py'), 'utf8'));
delete description.scripts;
delete description.devDependencies;
writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...description, version }, null, 2) + '\n');
cpSync(join(web, 'README.md'), join(folder, 'README.md'));
cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));

// npm packs what `files` of package.json names; a tar of our own would be one more thing to get wrong.
execFileSync('npm', ['pack', '--silent', '--pack-destination', output], {
  cwd: folder,
  stdio: ['ignore', 'ignore', 'inherit'],
});
const size = (name) => gzipSync(readFileSync(join(folder, name)), { level: 9 }).length;
const sizes = Object.fromEntries(
  ['xla_wasm.js', 'core.js', ...ON_DEMAND.map((name) => `${place(name)}.js`), 'worker.js', 'standalone.js'].map(
    (name) => [name, size(name)],
  ),
);
process.stdout.write(JSON.stringify({ package: `xla-wasm-${version}.tgz`, gzipped: sizes }, null, 1) + '\n');
