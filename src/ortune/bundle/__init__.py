"""Bundles: a tuned model with its settings, the code that loads it, and the proof of its gain."""
