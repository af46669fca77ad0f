"""Evidence, pairs, tails, multiplicity, calibration: pure functions on arrays.

``d`` has one log ratio per block (n,), the natural log of candidate / baseline. ``theta``, scales and shifts are also
in log units, effects and ``delta`` are shares, and ``alpha``, ``level`` and ``power`` are between 0 and 1.
``prior_scale`` is the scale of the first five blocks, from calibration. Arguments outside these ranges, no blocks, and
non-finite values raise OrtuneError.
"""
