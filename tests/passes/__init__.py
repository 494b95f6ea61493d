"""Tests of the passes on modules."""
