"""Rewrites that change the graph in memory, on graphs that nobody made for them: whole, idempotent, equal."""

from __future__ import annotations

import pytest
from rewrite_fuzzing import Tally, over_node_cases, over_random_graphs

SAMPLE = 200
NODE_CASES = 60  # one in so many


@pytest.mark.parametrize("part", range(2))
def test_a_sample_of_random_graphs(part: int) -> None:
    half, tally = SAMPLE // 2, Tally()
    over_random_graphs(range(part * half, (part + 1) * half), tally)
    assert not tally.wrong
    for name in ("hard-swish", "affine-into-weights", "gelu", "constant-folding", "no-op-nodes"):
        assert tally.changed[name] >= half // 30, tally.changed


def test_a_sample_of_node_cases() -> None:
    tally = Tally()
    over_node_cases(tally, every=NODE_CASES)
    assert not tally.wrong
    assert tally.changed["constant-folding"] >= 5
