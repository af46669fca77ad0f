"""Comparison of the outputs of two runs: tolerances, slices, grid steps, effects of rounding, and task metrics."""
