"""Locates the first divergence of two models: both record every value, which are matched and compared."""
