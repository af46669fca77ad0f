"""The folder of ``ortune diagnose``: its options, its steps, its words."""
