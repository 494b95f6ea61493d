"""Whole and random programs, hunts, and the smallest programs that once came out wrong."""
