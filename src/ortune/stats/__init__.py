"""Evidence, pairs, tails, multiplicity, calibration: pure functions on arrays."""
