// xla_wasm for browsers, workers, Node, Deno, Bun and edge runtimes: loads modules that the xla_wasm compiler made, and
// runs them.
//
//   import { load } from './xla_wasm.js';
//   const exe = await load('model.wasm');
//   const [logits] = exe.run(pixels);

export { Executable, load } from './executor.js';
export {
  ArgumentError,
  ArtifactError,
  ExchangeError,
  LimitError,
  RunError,
  UnsupportedError,
  XlaWasmError,
} from './errors.js';
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
 * The structures of the function that a model was lowered from.
 * @typedef {object} Structure
 * @property {any[]} arguments what `call` takes, in order or in one object
 * @property {unknown} inputs what `run` takes beside arrays by their full names: the arguments by name
 * @property {unknown} returned what `call` gives
 * @property {object} held what `set` takes for a name that those of weights and states begin with
 */
/** @typedef {{arguments: any[], inputs: never, returned: any, held: {}}} AnyStructure */
/**
 * The weights and states whose names begin with one, by what follows.
 * @template Held, Name
 * @typedef {{[Key in keyof Held as Key extends `${Name & string}.${infer Rest}` ? Rest : never]: Held[Key]}} Below
 */
/**
 * @template Held, Trees, Name
 * @typedef {Name extends keyof Held ? Held[Name] : Name extends keyof Trees ? Trees[Name] | Below<Held, Name> : never}
 *   Settable
 */
/**
 * @template Held, Name
 * @typedef {Name extends keyof Held ? Held[Name] : Below<Held, Name>} Gettable
 */

/**
 * A model loaded with the option `named`, as the JavaScript of `xla-wasm compile --js` gives it.
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {object} Model
 * @property {(inputs: Inputs | Trees['inputs'], options?: Omit<RunOptions, 'signal' | 'named'>) => Results} run runs
 *   the model on its inputs by name, and gives the results by name
 * @property {(inputs: Inputs | Trees['inputs'], options?: Omit<RunOptions, 'named'>) => Promise<Results>} runAsync the
 *   same, with pauses; may be ended by a signal
 * @property {(...values: Trees['arguments'] | [...Trees['arguments'], Omit<RunOptions, 'signal' | 'named' | 'out'>]) =>
 *   Trees['returned']} call takes the arguments of the function that the model was lowered from, and gives what that
 *   returns
 * @property {(...values: Trees['arguments'] | [...Trees['arguments'], Omit<RunOptions, 'named' | 'out'>]) =>
 *   Promise<Trees['returned']>} callAsync the same, with pauses
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K, value: Settable<Held, Trees['held'], K>) => void}
 *   set sets a weight, or the state that the next run begins with
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K) => Gettable<Held, K>} get gives a copy of a weight
 *   or a state
 * @property {<K extends keyof Inputs>(name: K) => Extract<Inputs[K], ArrayBufferView>} input the memory of an input, to
 *   be written before a run
 * @property {<K extends keyof Results>(name: K) => Results[K]} output the memory of a result, to be read until the next
 *   call
 * @property {(inputs: Inputs) => [string, number][]} profile instruction and seconds of every step of a run, loops
 *   summed
 * @property {() => void} dispose lets go of the model and its memory
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters,
 *   results, memory
 */

/**
 * The same in a worker.
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {object} RemoteModel
 * @property {(inputs: Inputs | Trees['inputs'], options?: Omit<RunOptions, 'out' | 'named'>) => Promise<Results>} run
 *   runs the model on its inputs by name, and gives the results by name
 * @property {(inputs: Inputs | Trees['inputs'], options?: Omit<RunOptions, 'out' | 'named'>) => Promise<Results>}
 *   runAsync the same
 * @property {(...values: Trees['arguments'] | [...Trees['arguments'], Omit<RunOptions, 'out' | 'named'>]) =>
 *   Promise<Trees['returned']>} call takes the arguments of the function that the model was lowered from, and gives
 *   what that returns
 * @property {(...values: Trees['arguments'] | [...Trees['arguments'], Omit<RunOptions, 'out' | 'named'>]) =>
 *   Promise<Trees['returned']>} callAsync the same
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K, value: Settable<Held, Trees['held'], K>) =>
 *   Promise<void>} set sets a weight, or the state that the next run begins with
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K) => Promise<Gettable<Held, K>>} get gives a copy of a
 *   weight or a state
 * @property {(inputs: Inputs) => Promise<[string, number][]>} profile instruction and seconds of every step of a run,
 *   loops summed
 * @property {() => void} dispose ends the worker
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters,
 *   results, memory
 */

/**
 * The same on several devices.
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {object} ReplicatedModel
 * @property {(lists: (Inputs | Trees['inputs'] | any[])[], options?: Omit<ReplicatedOptions, 'named'>) =>
 *   Promise<Results[]>} runReplicated runs the model on the inputs of each device, and gives the results of each
 * @property {(inputs: Inputs | Trees['inputs'], options?: Omit<ReplicatedOptions, 'named'>) => Promise<Results>}
 *   runGlobal runs the model on whole arrays, of which each device gets its part
 * @property {(...values: Trees['arguments'] | [...Trees['arguments'], Omit<ReplicatedOptions, 'named'>]) =>
 *   Promise<Trees['returned']>} call takes the arguments of the function that the model was lowered from, and gives
 *   what that returns
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K, value: Settable<Held, Trees['held'], K>, device?:
 *   number) => Promise<void>} set sets a weight or a state, on all devices or on one
 * @property {<K extends keyof Held | keyof Trees['held']>(name: K, device?: number) => Promise<Gettable<Held, K>>} get
 *   gives a copy of a weight or a state, of all devices or of one
 * @property {() => void} dispose ends the workers
 * @property {{replicas: number, partitions: number, count: number}} devices how many replicas and partitions there are
 * @property {'shared' | 'messages'} transport how devices exchange data
 * @property {import('./manifest.js').Manifest} manifest what the artifact says of itself: its name, parameters,
 *   results, memory
 */
