"""Package of ``ortune convert``: options, steps, result types and wording."""
