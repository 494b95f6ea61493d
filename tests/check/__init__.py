"""`xla-wasm check`."""
