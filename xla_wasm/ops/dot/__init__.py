"""Products of arrays, to the one form that `plan/` takes; their loops are in `kernels/`."""
