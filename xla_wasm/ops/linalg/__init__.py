"""Factors and solutions of matrices, and LAPACK's calls; the routines they call are in C."""
