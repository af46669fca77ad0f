"""What a lock keeps of a model and of its optimised graphs: counts, structure, weights, and memory without running."""
