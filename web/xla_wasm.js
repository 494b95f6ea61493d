// xla_wasm for browsers, workers, Node, Deno, Bun and edge runtimes: loads modules that the xla_wasm compiler made, and runs them.
//
//   import { load } from './xla_wasm.js';
//   const exe = await load('model.wasm');
//   const [logits] = exe.run(pixels);

export { Executable, load } from './executor.js';
export { ArgumentError, ArtifactError, LimitError, RunError, UnsupportedError, XlaWasmError } from './errors.js';
export { supports } from './features.js';
