"""Simulated A/A streams: what block log ratios look like when nothing differs, on machines of all tempers.

Every generator gives (streams, blocks) log ratios that are symmetric about 0 given the past: two identical
arms in random order within a block are exchangeable, whatever the machine does to both.
"""

from __future__ import annotations

import numpy as np


def normal(rng, shape):
    return rng.normal(0.0, 0.02, shape)


def cauchy(rng, shape):
    return 0.01 * rng.standard_cauchy(shape)


def drifting_volatility(rng, shape):
    volatility = np.exp(np.cumsum(rng.normal(0.0, 0.15, shape), axis=1))
    return 0.02 * np.clip(volatility, 0.05, 20.0) * rng.standard_normal(shape)


def bursts(rng, shape):
    quiet = rng.normal(0.0, 0.01, shape)
    return np.where(rng.random(shape) < 0.15, quiet + rng.uniform(-0.8, 0.8, shape), quiet)


def ties(rng, shape):
    return np.round(rng.normal(0.0, 0.006, shape), 2)


def level_drift(rng, shape):
    """Levels that wander as an AR(1) process and cancel within a block, and an order effect of 1 %."""
    level = np.zeros((*shape, 2))
    step = rng.normal(0.0, 0.1, shape)
    for t in range(1, shape[1]):
        level[:, t] = 0.95 * level[:, t - 1] + step[:, t, None]
    arms = level + rng.normal(0.0, 0.01, (*shape, 2))
    first = rng.integers(0, 2, shape)
    return arms[..., 1] - arms[..., 0] + 0.01 * (2 * first - 1)


def contention(rng, shape):
    """Each arm is slowed by busy neighbours now and then, never sped up."""
    arms = rng.exponential(0.02, (*shape, 2)) + 0.3 * (rng.random((*shape, 2)) < 0.1)
    return arms[..., 1] - arms[..., 0]


KINDS = {f.__name__: f for f in (normal, cauchy, drifting_volatility, bursts, ties, level_drift, contention)}
