"""Helpers that tests share: programs, values and artifacts, comparisons, and starters of other engines."""
