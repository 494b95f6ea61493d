"""Normalisation of batches, which other operations express: nothing here is lowered."""
