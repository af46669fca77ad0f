"""The folder of ``ortune history``: its options, its steps, its words."""
