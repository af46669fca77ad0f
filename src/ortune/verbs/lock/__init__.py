"""Package of ``ortune lock``: options, steps, result types and wording."""
