"""Locates the first divergence of two models: records all values of both, matches the values, and compares them."""
