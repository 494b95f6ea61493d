"""Fourier transforms; the routines they call are in C."""
