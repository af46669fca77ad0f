"""Package of ``ortune history``: options, steps, result types and wording."""
