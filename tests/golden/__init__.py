"""Small HLO modules, each with what the stages between the passes and the loops are to make of it."""
