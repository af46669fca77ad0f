"""The folder of ``ortune compare``: its options, its steps, its words."""
