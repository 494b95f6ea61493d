// The errors of xla_wasm, name for name those of the Python package.

/** The root of every error that xla_wasm throws on purpose. */
export class XlaWasmError extends Error {
  /**
   * @param {string} message
   * @param {{cause?: unknown}} [options]
   */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Arguments of a call that do not fit: their count, shape, type or name. */
export class ArgumentError extends XlaWasmError {}

/** A compiled artifact that is damaged, missing, or whose manifest does not tell the truth. */
export class ArtifactError extends XlaWasmError {}

/** A valid artifact that needs something this engine or host does not have. */
export class UnsupportedError extends XlaWasmError {}

/** A limit was reached: memory. */
export class LimitError extends XlaWasmError {}

/** A trap while a compiled module ran. */
export class RunError extends XlaWasmError {}
