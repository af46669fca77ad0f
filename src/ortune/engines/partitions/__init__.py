"""Predicts, without the provider, which nodes of a model an execution provider takes, and the regions they form."""
