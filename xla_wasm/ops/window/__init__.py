"""Reductions over windows, and gradients of these; convolutions are another family."""
