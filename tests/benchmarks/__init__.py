"""The benchmarks and what they measure with."""
