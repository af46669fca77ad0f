"""Tests that wait for a verdict run one after another; all others run beside them on the second core."""

from __future__ import annotations

from pathlib import Path

import pytest

# Two measurements at once are each other's noise, and a noisy machine makes for undecided verdicts.
MEASURING = {"test_compare", "test_tune", "test_faults_tune", "test_faults_worker", "test_readme"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).stem in MEASURING:
            item.add_marker(pytest.mark.xdist_group("measuring"))
