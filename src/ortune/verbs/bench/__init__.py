"""Package of ``ortune bench``: options, steps, result types and wording."""
