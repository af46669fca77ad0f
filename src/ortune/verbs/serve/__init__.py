"""The folder of ``ortune serve``: its options, its steps, its words."""
