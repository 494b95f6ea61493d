// The errors of xla_wasm, name for name those of the Python package. Each states its name, since minifiers rename
// classes.

/** The root of every error that xla_wasm throws on purpose. */
export class XlaWasmError extends Error {
  static {
    this.prototype.name = 'XlaWasmError';
  }
}

/** Arguments of a call that do not fit: their count, shape, type or name. */
export class ArgumentError extends XlaWasmError {
  static {
    this.prototype.name = 'ArgumentError';
  }
}

/** A compiled artifact that is damaged, missing, or whose manifest does not tell the truth. */
export class ArtifactError extends XlaWasmError {
  static {
    this.prototype.name = 'ArtifactError';
  }
}

/** A valid artifact that needs something this engine or host does not have. */
export class UnsupportedError extends XlaWasmError {
  static {
    this.prototype.name = 'UnsupportedError';
  }
}

/** A limit was reached: memory, or the time of a call. */
export class LimitError extends XlaWasmError {
  static {
    this.prototype.name = 'LimitError';
  }
}

/** A compiled module that trapped while it ran, or that can run no more. */
export class RunError extends XlaWasmError {
  static {
    this.prototype.name = 'RunError';
  }
}

/** Devices that could not exchange data: one is missing, or their programs differ. */
export class ExchangeError extends XlaWasmError {
  static {
    this.prototype.name = 'ExchangeError';
  }
}
