"""The command `xla-wasm`: a module for each command, or for a few that belong together; `cli` puts them together."""
