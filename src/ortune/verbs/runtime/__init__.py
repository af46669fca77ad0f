"""The folder of ``ortune runtime``: its options, its steps, its words."""
