"""The folder of ``ortune doctor``: its options, its steps, its words."""
