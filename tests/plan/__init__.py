"""Kernels, memory and their order."""
