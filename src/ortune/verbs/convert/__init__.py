"""The folder of ``ortune convert``: its options, its steps, its words."""
