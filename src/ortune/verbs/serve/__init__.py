"""Package of ``ortune serve``: options, steps, result types and wording."""
