// The page of the JavaScript API, as Markdown on standard output: what the npm package exports, from the JSDoc comments
// and the types that TypeScript finds. The first argument is the folder that has TypeScript in its node_modules.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const web = join(root, 'web');
const ts = createRequire(join(resolve(process.argv[2]), 'x.js'))('typescript');

// The entries of the package, each with the file that its types come from.
const entries = Object.entries(JSON.parse(readFileSync(join(web, 'package.json'), 'utf8')).exports)
  .filter(([, target]) => target.types)
  .map(([name, target]) => [
    name.replace(/^\./, 'xla-wasm'),
    join(web, target.types.replace('./types/', '').replace('.d.ts', '.js')),
  ]);

/** What of an entry is for users, where it exports more for other files of the loader. */
const PUBLIC = { 'xla-wasm/feeds.js': ['Queue', 'Source', 'Sink', 'FeedOptions'] };

const options = {
  allowJs: true,
  checkJs: true,
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
};
const program = ts.createProgram(
  entries.map(([, file]) => file),
  options,
);
const checker = program.getTypeChecker();
const FLAGS =
  ts.TypeFormatFlags.NoTruncation |
  ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope |
  ts.TypeFormatFlags.WriteArrowStyleSignature;
const NO_ARROW = FLAGS & ~ts.TypeFormatFlags.WriteArrowStyleSignature;
/** In the cell of a table; a bar inside of code is none of the table's. */
const cell = (/** @type {string} */ text) => text.replace(/\s+/g, ' ').trim();
const prose = (/** @type {any[]} */ parts) => ts.displayPartsToString(parts).replaceAll('<', '&lt;').trim();
/** Types as JSDoc writes them name files; a reader knows the names. */
const plain = (/** @type {string} */ type) =>
  type.replace(/import\([^)]*\)\./g, '').replace(/\bArrayBufferView<ArrayBuffer>/g, 'ArrayBufferView');

const original = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
const declared = (symbol) => symbol.declarations?.[0];
const isInternal = (symbol) =>
  symbol.name.startsWith('#') ||
  symbol.name.startsWith('__#') ||
  symbol.name === 'prototype' ||
  symbol.getJsDocTags(checker).some(({ name }) => name === 'internal' || name === 'private');

/** A signature that is too long for a line, with a parameter in each. */
function broken(/** @type {string} */ text) {
  if (text.length < 88) return text;
  const start = text.indexOf('(');
  const parts = [];
  let depth = 0;
  for (let at = start, from = start + 1; at < text.length; at++) {
    if ('({[<'.includes(text[at])) depth++;
    if (')}]'.includes(text[at]) || (text[at] === '>' && text[at - 1] !== '=')) depth--;
    if ((text[at] === ',' && depth === 1) || depth === 0) {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
      if (depth === 0)
        return `${text.slice(0, start)}(\n${parts.map((part) => `  ${part},\n`).join('')}${text.slice(at)}`;
    }
  }
  return text;
}

function signatures(symbol, node, name) {
  const type = checker.getTypeOfSymbolAtLocation(symbol, node);
  return type
    .getCallSignatures()
    .map((signature) => [`${name}${plain(checker.signatureToString(signature, undefined, NO_ARROW))}`, signature]);
}

function parameters(symbol) {
  const rows = new Map();
  for (const tag of symbol.getJsDocTags(checker)) {
    if (tag.name !== 'param') continue;
    const [name, ...rest] = ts.displayPartsToString(tag.text).split(' ');
    if (rest.join(' ').trim()) rows.set(name, rest.join(' '));
  }
  const returns = symbol.getJsDocTags(checker).find(({ name, text }) => name === 'returns' && text?.length);
  const lines = [...rows].map(([name, text]) => `- \`${name}\`: ${cell(text.replaceAll('<', '&lt;'))}`);
  if (returns) lines.push(`- gives ${cell(prose(returns.text))}`);
  return lines.length ? `${lines.join('\n')}\n\n` : '';
}

/** A function or method: its forms, what it does, its parameters. */
function callable(symbol, node, name, level) {
  const forms = [...new Set(signatures(symbol, node, name).map(([text]) => broken(text)))];
  const about =
    prose(symbol.getDocumentationComment(checker)) ||
    signatures(symbol, node, name)
      .map(([, signature]) => prose(signature.getDocumentationComment(checker)))
      .find(Boolean) ||
    '';
  return `${'#'.repeat(level)} ${name}\n\n\`\`\`ts\n${forms.join('\n')}\n\`\`\`\n\n${about}\n\n${parameters(symbol)}`;
}

function fields(type, node) {
  const rows = type
    .getProperties()
    .filter((field) => !isInternal(field))
    .map((field) => {
      const optional = field.flags & ts.SymbolFlags.Optional ? '?' : '';
      const text = checker.typeToString(
        checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(field, node)),
        undefined,
        FLAGS,
      );
      return (
        `| \`${field.name}${optional}\` | \`${cell(plain(text))}\` | ` +
        `${cell(prose(field.getDocumentationComment(checker)))} |`
      );
    });
  return rows.length ? `| | type | |\n|---|---|---|\n${rows.join('\n')}\n\n` : '';
}

function ofClass(symbol, name) {
  const node = declared(symbol);
  const base = node.heritageClauses?.[0]?.types[0]?.expression.getText();
  const head =
    `### ${name}\n\n${prose(symbol.getDocumentationComment(checker))}` +
    `${base && base !== 'Error' ? ` It is a \`${base}\`.` : ''}\n\n`;
  const own = [...(symbol.members?.values() ?? [])].filter((member) => !isInternal(member));
  const data = own.filter((member) => member.flags & (ts.SymbolFlags.Property | ts.SymbolFlags.Accessor));
  const rows = data.map(
    (member) =>
      `| \`${member.name}\` | ` +
      `\`${cell(plain(checker.typeToString(checker.getTypeOfSymbolAtLocation(member, node), undefined, FLAGS)))}\` ` +
      `| ${cell(prose(member.getDocumentationComment(checker)))} |`,
  );
  const methods = own.filter((member) => member.flags & ts.SymbolFlags.Method);
  return (
    head +
    (rows.length ? `| | type | |\n|---|---|---|\n${rows.join('\n')}\n\n` : '') +
    methods.map((member) => callable(member, node, member.name, 4)).join('')
  );
}

function ofType(symbol, name) {
  const node = declared(symbol);
  const type = checker.getDeclaredTypeOfSymbol(symbol);
  if (type.symbol?.flags & ts.SymbolFlags.Class) return ofClass(type.symbol, name);
  // An alias of a type of models.d.ts is explained there.
  const about = [symbol, type.aliasSymbol, type.symbol]
    .map((at) => (at ? prose(at.getDocumentationComment(checker)) : ''))
    .find(Boolean);
  const isObject = type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection) && type.getProperties().length;
  const text = plain(checker.typeToString(type, undefined, FLAGS | ts.TypeFormatFlags.InTypeAlias));
  return (
    `### ` +
    `${name}\n\n${about ? `${about}\n\n` : ''}${isObject ? fields(type, node) : `\`\`\`ts\n${text}\n\`\`\`\n\n`}`
  );
}

const KINDS = [
  ['Functions', ts.SymbolFlags.Function | ts.SymbolFlags.Variable],
  ['Classes', ts.SymbolFlags.Class],
  ['Types', ts.SymbolFlags.TypeAlias | ts.SymbolFlags.Interface],
];
let page =
  '# The JavaScript API\n\nEverything here is made from the types and comments of this version. Arrays are flat ' +
  'typed arrays, in row-major order.\n';
for (const [entry, file] of entries) {
  page += `\n## ${entry}\n\n`;
  const module = checker.getSymbolAtLocation(program.getSourceFile(file));
  const exported = checker
    .getExportsOfModule(module)
    .map((symbol) => [symbol.name, original(symbol)])
    .filter(([name, symbol]) => !isInternal(symbol) && (PUBLIC[entry] ?? [name]).includes(name));
  const missing = (PUBLIC[entry] ?? []).filter((name) => !exported.some(([known]) => known === name));
  if (missing.length) throw new Error(`${entry} exports no ${missing.join(', ')}: tools/docs/javascript_reference.mjs`);
  for (const [, flags] of KINDS) {
    for (const [name, symbol] of exported) {
      if (!(symbol.flags & flags) || KINDS.find(([, kind]) => symbol.flags & kind)[1] !== flags) continue;
      const node = declared(symbol);
      if (flags & ts.SymbolFlags.Class) page += ofClass(symbol, name);
      else if (flags & ts.SymbolFlags.TypeAlias) page += ofType(symbol, name);
      else if (checker.getTypeOfSymbolAtLocation(symbol, node).getCallSignatures().length)
        page += callable(symbol, node, name, 3);
    }
  }
}
process.stdout.write(page);
