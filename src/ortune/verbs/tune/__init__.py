"""Package of ``ortune tune``: options, steps, result types and wording."""
