"""Documents: what they show runs, and what they state is so."""
