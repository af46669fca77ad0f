"""Package of ``ortune partition``: options, steps, result types and wording."""
