"""Random bits and numbers, the same in every host."""
