"""The examples of `examples/`."""
