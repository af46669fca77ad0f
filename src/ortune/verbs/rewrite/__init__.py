"""The folder of ``ortune rewrite``: its options, its steps, its words."""
