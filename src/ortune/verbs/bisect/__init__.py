"""The folder of ``ortune bisect``: its options, its steps, its words."""
