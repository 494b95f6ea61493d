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
/** @typedef {import('./devices/replicated.js').ReplicatedExecutable} ReplicatedExecutable */
/** @typedef {import('./devices/replicated.js').ReplicatedOptions} ReplicatedOptions */
/** @typedef {import('./devices/exchange.js').ExchangeEvent} ExchangeEvent */
/** @typedef {import('./devices/grid.js').Count} Count */

/**
 * A model loaded with the option `named`, as the JavaScript of `xla-wasm compile --js` gives it.
 * @template Inputs, Results, Held
 * @typedef {object} Model
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'signal' | 'named'>) => Results} run runs the model on its inputs by name, and gives the results by name
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'named'>) => Promise<Results>} runAsync the same, with pauses; may be ended by a signal
 * @property {(...values: any[]) => any} call takes the arguments of the function that the model was lowered from, and gives what that returns
 * @property {(...values: any[]) => Promise<any>} callAsync the same, with pauses
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => void} set sets a weight, or the state that the next run begins with
 * @property {<K extends keyof Held>(name: K) => Held[K]} get gives a copy of a weight or a state
 * @property {<K extends keyof Inputs>(name: K) => Extract<Inputs[K], ArrayBufferView>} input the memory of an input, to be written before a run
 * @property {<K extends keyof Results>(name: K) => Results[K]} output the memory of a result, to be read until the next call
 * @property {(inputs: Inputs) => [string, number][]} profile instruction and seconds of every step of a run, loops summed
 * @property {() => void} dispose lets go of the model and its memory
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters, results, memory
 */

/**
 * The same in a worker.
 * @template Inputs, Results, Held
 * @typedef {object} RemoteModel
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'out' | 'named'>) => Promise<Results>} run runs the model on its inputs by name, and gives the results by name
 * @property {(inputs: Inputs, options?: Omit<RunOptions, 'out' | 'named'>) => Promise<Results>} runAsync the same
 * @property {(...values: any[]) => Promise<any>} call takes the arguments of the function that the model was lowered from, and gives what that returns
 * @property {(...values: any[]) => Promise<any>} callAsync the same
 * @property {<K extends keyof Held>(name: K, value: Held[K]) => Promise<void>} set sets a weight, or the state that the next run begins with
 * @property {<K extends keyof Held>(name: K) => Promise<Held[K]>} get gives a copy of a weight or a state
 * @property {(inputs: Inputs) => Promise<[string, number][]>} profile instruction and seconds of every step of a run, loops summed
 * @property {() => void} dispose ends the worker
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters, results, memory
 */

/**
 * The same on several devices.
 * @template Inputs, Results, Held
 * @typedef {object} ReplicatedModel
 * @property {(lists: (Inputs | any[])[], options?: Omit<ReplicatedOptions, 'named'>) => Promise<Results[]>} runReplicated runs the model on the inputs of each device, and gives the results of each
 * @property {(inputs: Inputs, options?: Omit<ReplicatedOptions, 'named'>) => Promise<Results>} runGlobal runs the model on whole arrays, of which each device gets its part
 * @property {(...values: any[]) => Promise<any>} call takes the arguments of the function that the model was lowered from, and gives what that returns
 * @property {<K extends keyof Held>(name: K, value: Held[K], device?: number) => Promise<void>} set sets a weight or a state, on all devices or on one
 * @property {<K extends keyof Held>(name: K, device?: number) => Promise<Held[K]>} get gives a copy of a weight or a state, of all devices or of one
 * @property {() => void} dispose ends the workers
 * @property {{replicas: number, partitions: number, count: number}} devices how many replicas and partitions there are
 * @property {'shared' | 'messages'} transport how devices exchange data
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters, results, memory
 */
