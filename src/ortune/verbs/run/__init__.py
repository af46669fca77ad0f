"""Package of ``ortune run``: options, steps, result types and wording."""
