"""From a canonical HLO module to a plan: an ordered list of steps over buffers with fixed addresses."""
