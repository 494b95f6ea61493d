// xla_wasm for browsers, workers, Node, Deno, Bun and edge runtimes: loads modules that the xla_wasm compiler made, and runs them.
//
//   import { load } from './xla_wasm.js';
//   const exe = await load('model.wasm');
//   const [logits] = exe.run(pixels);

export { Executable, load } from './executor.js';
export { ArgumentError, ArtifactError, LimitError, RunError, UnsupportedError, XlaWasmError } from './errors.js';
export { supports } from './features.js';
export { transfer } from './transfer.js';

/** @typedef {import('./executor.js').LoadOptions} LoadOptions */
/** @typedef {import('./executor.js').Progress} Progress */
/** @typedef {import('./executor.js').RunOptions} RunOptions */
/** @typedef {import('./remote.js').RemoteExecutable} RemoteExecutable */

/**
 * A model loaded with the option `named`, as the JavaScript of `xla-wasm compile --js` gives it.
 * @template Inputs, Results, Held
 * @typedef {object} Model
 * @property {(inputs: Inputs) => Results} run
 * @property {(inputs: Inputs, options?: RunOptions) => Promise<Results>} runAsync may be ended by a signal
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => void} set
 * @property {<K extends keyof Held>(name: K) => Held[K]} get
 * @property {(inputs: Inputs) => [string, number][]} profile
 * @property {() => void} dispose
 * @property {import('./manifest.js').Manifest} manifest
 */

/**
 * The same in a worker.
 * @template Inputs, Results, Held
 * @typedef {object} RemoteModel
 * @property {(inputs: Inputs, options?: RunOptions) => Promise<Results>} run
 * @property {(inputs: Inputs, options?: RunOptions) => Promise<Results>} runAsync
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => Promise<void>} set
 * @property {<K extends keyof Held>(name: K) => Promise<Held[K]>} get
 * @property {(inputs: Inputs) => Promise<[string, number][]>} profile
 * @property {() => void} dispose
 * @property {import('./manifest.js').Manifest} manifest
 */
