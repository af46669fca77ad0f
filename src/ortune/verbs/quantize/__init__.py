"""The folder of ``ortune quantize``: its options, its steps, its words."""
