"""Package of ``ortune record``: options, steps, result types and wording."""
