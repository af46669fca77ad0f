"""The folder of ``ortune skeleton``: its options, its steps, its words."""
