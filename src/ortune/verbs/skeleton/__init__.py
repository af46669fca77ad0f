"""Package of ``ortune skeleton``: options, steps, result types and wording."""
