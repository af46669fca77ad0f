"""Package of ``ortune report``: options, steps, result types and wording."""
