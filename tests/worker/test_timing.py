from __future__ import annotations

import numpy as np

from ortune.worker.timing import agree


def whole(values: np.ndarray) -> list[int]:
    return [int(value) for value in values]


def test_windows_of_one_level_agree_and_a_burst_does_not_matter() -> None:
    level = 1e6 * (1.0 + 0.05 * np.random.default_rng(0).standard_normal(40))
    assert agree(whole(level[:20]), whole(level[20:]))
    assert not agree(whole(1.3 * level[:20]), whole(level[20:]))
    assert agree([1000] * 9, [1019] * 9)
    assert not agree([1000] * 9, [1030] * 9)
    burst = level.copy()
    burst[:3] *= 50.0
    assert agree(whole(burst[:20]), whole(level[20:]))


def test_windows_of_one_level_are_called_steady() -> None:
    windows = 1e6 * np.random.default_rng(1).lognormal(0.0, 0.1, (500, 2, 20))
    assert np.mean([agree(whole(a), whole(b)) for a, b in windows]) > 0.95
    assert np.mean([agree(whole(1.5 * a), whole(b)) for a, b in windows]) < 0.02
