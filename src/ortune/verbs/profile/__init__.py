"""The folder of ``ortune profile``: its options, its steps, its words."""
