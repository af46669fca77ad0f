"""Statistics as pure functions on arrays: evidence, paired tests, tails, multiplicity, calibration.

``d`` has one log ratio per block (n,), the natural log of candidate / baseline. ``theta``, scales and shifts are also
in log units, effects and ``delta`` are fractions, and ``alpha``, ``level`` and ``power`` are between 0 and 1.
``prior_scale`` is the scale of the first five blocks, from calibration. OrtuneError is raised for arguments outside
these ranges, for non-finite values, and if there are no blocks.
"""
