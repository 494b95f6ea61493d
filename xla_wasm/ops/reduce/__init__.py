"""Reductions, scans and maps with a computation of the program; windows have a family of their own."""
