"""Package of ``ortune diagnose``: options, steps, result types and wording."""
