"""The folder of ``ortune run``: its options, its steps, its words."""
