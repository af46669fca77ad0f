"""Package of ``ortune quantize``: options, steps, result types and wording."""
