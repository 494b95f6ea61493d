"""StableHLO, read and written."""
