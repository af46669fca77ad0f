"""Comparison of the outputs of two runs: tolerance, ways, slices, steps, rounding, task metrics."""
