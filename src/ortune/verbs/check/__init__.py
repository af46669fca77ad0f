"""The folder of ``ortune check``: its options, its steps, its words."""
