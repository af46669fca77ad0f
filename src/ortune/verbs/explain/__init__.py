"""The folder of ``ortune explain``: its options, its steps, its words."""
