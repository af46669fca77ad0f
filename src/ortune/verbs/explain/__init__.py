"""Package of ``ortune explain``: options, steps, result types and wording."""
