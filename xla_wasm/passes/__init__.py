"""Passes over `hlo.Module`: each takes the module, changes it in place, and leaves it valid."""
