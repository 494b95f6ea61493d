"""The binary format of WebAssembly."""
