"""Starting trials, limits, outcomes, comparing outputs."""
