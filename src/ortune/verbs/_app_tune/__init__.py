"""``ortune tune app.workload``: finds changes that make a recorded application faster."""
