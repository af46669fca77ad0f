"""How the outputs of two runs are compared: tolerance, ways, slices, steps, rounding, task metrics."""
