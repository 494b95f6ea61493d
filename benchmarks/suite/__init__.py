"""The benchmark suite: workloads, what runs them, and how they are timed, checked and shown. `python -m benchmarks`
runs it."""
