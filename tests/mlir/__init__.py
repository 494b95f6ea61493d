"""MLIR as a tree, from text and bytecode."""
