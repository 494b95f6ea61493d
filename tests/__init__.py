"""The tests, in rooms named as the folders of `xla_wasm/` where one fits, and `support/` with what they share."""
