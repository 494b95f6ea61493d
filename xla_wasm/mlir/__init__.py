"""MLIR as files and texts hold it: a tree of operations, and what reads one from bytecode, text and jax.export's files.

Nothing here knows HLO's operations: `xla_wasm.stablehlo` makes a module of the tree.
"""
