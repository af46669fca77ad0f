"""Package of ``ortune doctor``: options, steps, result types and wording."""
