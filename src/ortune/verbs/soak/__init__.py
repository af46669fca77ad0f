"""Package of ``ortune soak``: options, steps, result types and wording."""
