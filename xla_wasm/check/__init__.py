"""Checks of a compiled module: the comparison with the reference evaluator, and the search for the instruction to
blame.

The command `xla-wasm check` prints what these modules find. Nothing here is needed to compile or to run a module.
"""
