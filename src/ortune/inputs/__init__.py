"""Inputs of a model: their meaning, sizes and values, and the user's own."""
