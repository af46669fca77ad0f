"""The folder of ``ortune report``: its options, its steps, its words."""
