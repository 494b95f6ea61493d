// xla_wasm for browsers, workers, Node, Deno, Bun and edge runtimes: loads modules that the xla_wasm compiler made, and runs them.
//
//   import { load } from './xla_wasm.js';
//   const exe = await load('model.wasm');
//   const [logits] = exe.run(pixels);

export { Executable, load } from './executor.js';
export { ArgumentError, ArtifactError, ExchangeError, LimitError, RunError, UnsupportedError, XlaWasmError } from './errors.js';
export { supports } from './features.js';
export { transfer } from './transfer.js';

/** @typedef {import('./executor.js').LoadOptions} LoadOptions */
/** @typedef {import('./executor.js').Progress} Progress */
/** @typedef {import('./executor.js').RunOptions} RunOptions */
/** @typedef {import('./remote.js').RemoteExecutable} RemoteExecutable */
/** @typedef {import('./lazy/replicated.js').ReplicatedExecutable} ReplicatedExecutable */
/** @typedef {import('./lazy/replicated.js').ReplicatedOptions} ReplicatedOptions */
/** @typedef {import('./lazy/exchange.js').ExchangeEvent} ExchangeEvent */
/** @typedef {import('./lazy/grid.js').Count} Count */

/**
 * A model loaded with the option `named`, as the JavaScript of `xla-wasm compile --js` gives it.
 * @template Inputs, Results, Held
 * @typedef {object} Model
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'signal'>) => Results} run
 * @property {(inputs: Inputs, options?: RunOptions) => Promise<Results>} runAsync may be ended by a signal
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => void} set
 * @property {<K extends keyof Held>(name: K) => Held[K]} get
 * @property {<K extends keyof Inputs>(name: K) => Extract<Inputs[K], ArrayBufferView>} input
 * @property {<K extends keyof Results>(name: K) => Results[K]} output
 * @property {(inputs: Inputs) => [string, number][]} profile
 * @property {() => void} dispose
 * @property {import('./manifest.js').Manifest} manifest
 */

/**
 * The same in a worker.
 * @template Inputs, Results, Held
 * @typedef {object} RemoteModel
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'out'>) => Promise<Results>} run
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'out'>) => Promise<Results>} runAsync
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => Promise<void>} set
 * @property {<K extends keyof Held>(name: K) => Promise<Held[K]>} get
 * @property {(inputs: Inputs) => Promise<[string, number][]>} profile
 * @property {() => void} dispose
 * @property {import('./manifest.js').Manifest} manifest
 */

/**
 * The same on several devices.
 * @template Inputs, Results, Held
 * @typedef {object} ReplicatedModel
 * @property {(lists: (Inputs | any[])[], options?: ReplicatedOptions) => Promise<Results[]>} runReplicated
 * @property {(inputs: Inputs, options?: ReplicatedOptions) => Promise<Results>} runGlobal
 * @property {<K extends keyof Held>(name: K, value: Held[K], device?: number) => Promise<void>} set
 * @property {<K extends keyof Held>(name: K, device?: number) => Promise<Held[K]>} get
 * @property {() => void} dispose
 * @property {{replicas: number, partitions: number, count: number}} devices
 * @property {'shared' | 'messages'} transport
 * @property {import('./manifest.js').Manifest} manifest
 */
