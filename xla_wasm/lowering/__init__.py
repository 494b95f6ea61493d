"""Common parts of the lowerings of all operations: elements as loop values, kernels and their memory, and the table by
opcode.

What one family needs stands in its folder of `ops`.
"""
