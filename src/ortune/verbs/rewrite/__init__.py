"""Package of ``ortune rewrite``: options, steps, result types and wording."""
