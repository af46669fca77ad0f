"""Package of ``ortune compare``: options, steps, result types and wording."""
