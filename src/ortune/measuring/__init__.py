"""Measurement of one model, shared by all verbs: sides, trials, turns, blocks, journal, budget, limits."""
