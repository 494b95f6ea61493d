"""The host in Python: calls, weights, states, several devices, threads."""
