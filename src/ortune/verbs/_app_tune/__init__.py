"""``ortune tune app.workload``: what makes a recorded application faster."""
