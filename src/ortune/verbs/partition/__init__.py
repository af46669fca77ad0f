"""The folder of ``ortune partition``: its options, its steps, its words."""
