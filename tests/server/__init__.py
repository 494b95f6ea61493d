"""`xla-wasm serve-model`."""
