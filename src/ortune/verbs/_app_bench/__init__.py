"""``ortune bench app.workload``: a recorded application, played again."""
