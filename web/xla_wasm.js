// xla_wasm for browsers, workers, Node, Deno, Bun and edge runtimes: loads modules that the xla_wasm compiler made, and
// runs them.
//
//   import { load } from './xla_wasm.js';
//   const exe = await load('model.wasm');
//   const [logits] = exe.run(pixels);

export { transfer } from './arrays.js';
export { Executable } from './executor.js';
export { load } from './load.js';
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

/** @typedef {import('./load.js').LoadOptions} LoadOptions */
/** @typedef {import('./load.js').Progress} Progress */
/** @typedef {import('./executor.js').RunOptions} RunOptions */
/** @typedef {import('./remote.js').RemoteExecutable} RemoteExecutable */
/** @typedef {import('./devices/replicated.js').ReplicatedExecutable} ReplicatedExecutable */
/** @typedef {import('./devices/replicated.js').ReplicatedOptions} ReplicatedOptions */
/** @typedef {import('./devices/exchange.js').ExchangeEvent} ExchangeEvent */
/** @typedef {import('./devices/grid.js').Count} Count */
/** @typedef {import('./models.js').Structure} Structure */
/** @typedef {import('./models.js').AnyStructure} AnyStructure */
/**
 * @template Held, Name
 * @typedef {import('./models.js').Below<Held, Name>} Below
 */
/**
 * @template Held, Trees, Name
 * @typedef {import('./models.js').Settable<Held, Trees, Name>} Settable
 */
/**
 * @template Held, Trees, Name
 * @typedef {import('./models.js').Gettable<Held, Trees, Name>} Gettable
 */
/**
 * @template {Structure} Trees
 * @template Options
 * @typedef {import('./models.js').CallArguments<Trees, Options>} CallArguments
 */
/**
 * @template Inputs
 * @template {Structure} Trees
 * @template [Options=never]
 * @typedef {import('./models.js').RunArguments<Inputs, Trees, Options>} RunArguments
 */
/**
 * @template Held
 * @template {Structure} Trees
 * @typedef {import('./models.js').HeldName<Held, Trees>} HeldName
 */
/**
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {import('./models.js').Model<Inputs, Results, Held, Trees>} Model
 */
/**
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {import('./models.js').RemoteModel<Inputs, Results, Held, Trees>} RemoteModel
 */
/**
 * @template Inputs, Results, Held
 * @template {Structure} [Trees=AnyStructure]
 * @typedef {import('./models.js').ReplicatedModel<Inputs, Results, Held, Trees>} ReplicatedModel
 */
