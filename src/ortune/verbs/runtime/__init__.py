"""Package of ``ortune runtime``: options, steps, result types and wording."""
