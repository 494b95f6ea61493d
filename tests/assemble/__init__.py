"""Artifacts: what is in them, and what they begin with."""
