"""StableHLO becomes an HLO module: the tree that `xla_wasm.mlir` reads goes in, an `hlo.ir.Module` comes out. And back:
`writer.py` and `write_*.py` write a module as text.

`module.py` has functions, regions and values, `rules.py` finds how an operation is mapped, `kinds.py` how an attribute
is, `quantized.py` maps operations on quantised types, `fold.py` computes sizes that follow from constants, and
`exported.py` reads jax.export's files. What is particular to an operation stands with its record: `Op.stablehlo`,
`Attr.stablehlo`, and `ops/<family>/stablehlo.py`.
"""
