"""The folder of ``ortune record``: its options, its steps, its words."""
