"""Kernels written by hand: products and convolutions."""
