"""The server behind `xla-wasm serve-model`: a compiled module over HTTP, as docs/serving.md describes it. Needs the
extra `server`."""
