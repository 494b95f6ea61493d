"""Operations: each by the reference evaluator, compiled, and by XLA:CPU."""
