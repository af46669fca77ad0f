"""One model measured, whatever asks: sides, trials, turns, blocks, journal, budget, limits."""
