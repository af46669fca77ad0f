"""The folder of ``ortune tune``: its options, its steps, its words."""
