"""Calls, branches and loops, and rules that see through them; how steps jump is the part of `plan/`."""
