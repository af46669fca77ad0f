"""The folder of ``ortune bench``: its options, its steps, its words."""
