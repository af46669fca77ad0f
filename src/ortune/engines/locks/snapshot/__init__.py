"""Contents of a lock for a model and its optimised graphs: counts, structure, weights, and static memory."""
