"""Package of ``ortune check``: options, steps, result types and wording."""
