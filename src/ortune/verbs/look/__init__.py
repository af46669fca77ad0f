"""The folder of ``ortune look``: its options, its steps, its words."""
