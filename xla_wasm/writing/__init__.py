"""Writing HLO: the `Writer` that passes and expansions make instructions with, and arithmetic on real arrays over
it."""
