"""Inputs of a model: their meaning, sizes and values, and the reading of the user's inputs."""
