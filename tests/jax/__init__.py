"""`xla_wasm.jax`."""
