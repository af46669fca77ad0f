"""Package of ``ortune bisect``: options, steps, result types and wording."""
