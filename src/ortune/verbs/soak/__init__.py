"""The folder of ``ortune soak``: its options, its steps, its words."""
