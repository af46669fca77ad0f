"""The folder of ``ortune lock``: its options, its steps, its words."""
