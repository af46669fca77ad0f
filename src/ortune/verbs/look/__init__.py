"""Package of ``ortune look``: options, steps, result types and wording."""
