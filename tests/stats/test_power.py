"""What a comparison finds in recorded turns is in the table of results, and what it claims of nothing is rare."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import power  # noqa: E402

RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
TOLD = RESULTS.partition("## Statistical power")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def powers():
    return power.powers()


def test_nothing_is_claimed_of_identical_plans_more_often_than_in_two_of_a_hundred(powers):
    assert len(powers) == 6
    for model, machine, shares in powers:
        assert max(share for (effect, _), share in shares.items() if not effect) <= 0.02, (model, machine)


def test_the_power_is_what_the_results_tell(powers):
    for model, machine, shares in powers:
        (row,) = re.findall(rf"(?m)^\| {model} \| {machine} \| (.+) \|$", TOLD)
        told = [float(cell.removesuffix(" %")) / 100 for cell in row.split(" | ")]
        now = [shares[effect, blocks] for effect in power.EFFECTS for blocks in power.BLOCKS]
        # A tenth less is power that users pay for in minutes; a few streams are no difference.
        assert all(a >= 0.9 * b - 0.03 for a, b in zip(now, told, strict=True)), (
            "run: python benchmarks/power.py"
        )
