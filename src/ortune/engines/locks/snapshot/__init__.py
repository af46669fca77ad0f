"""What a lock stores of a model and its optimised graphs: counts, structure, weights, and static memory."""
