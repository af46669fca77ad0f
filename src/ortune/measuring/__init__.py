"""The measurement of models that all verbs share: sides, trials, turns, blocks, journal, budget, limits."""
