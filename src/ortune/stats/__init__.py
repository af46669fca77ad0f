"""Evidence, pairs, tails, multiplicity, calibration: pure functions on arrays.

``d`` is one log ratio a block (n,), the natural log of candidate / baseline. ``theta``, scales and shifts are in log
units too, effects and ``delta`` are shares, ``alpha``, ``level`` and ``power`` lie between 0 and 1. ``prior_scale`` is
the scale of the first five blocks, from calibration. What lies outside these, no blocks, and a value that is not
finite are an OrtuneError.
"""
