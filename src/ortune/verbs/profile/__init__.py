"""Package of ``ortune profile``: options, steps, result types and wording."""
