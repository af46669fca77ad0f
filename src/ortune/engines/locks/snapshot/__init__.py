"""Snapshots for a lock file: counts, structure, weights and static memory of a model and its optimised graphs."""
