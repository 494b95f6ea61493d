// Runs a Python file in Pyodide, as its arguments say: the folder with Pyodide and the wheel, the file, and a folder
// that the file finds under /data.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file, data] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, 'pyodide.mjs')).href);
const python = await loadPyodide({ indexURL: folder, lockFileURL: resolve(folder, 'pyodide-lock.json') });
await python.loadPackage('xla-wasm', { messageCallback: () => {} });
python.mountNodeFS('/data', data);
await python.runPythonAsync(readFileSync(file, 'utf8'), { filename: file });
