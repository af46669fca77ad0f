"""The options of a command reach its first trial through few files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import walk_options

MOST = {"compare": (6, 8, 11), "tune": (5, 7, 10)}
"""For each verb: files that receive the options, climbs, and floors. The numbers may only fall."""


@pytest.mark.parametrize("verb", MOST)
def test_options_reach_a_trial_in_few_steps(verb: str) -> None:
    found = walk_options.walk(verb)
    files, climbs, floors = MOST[verb]
    assert len(found.files) <= files, found.files
    assert len(found.climbs) <= climbs, found.climbs
    assert len(found.floors) <= floors, found.floors
    assert {room for room in found.rooms if room.startswith("verbs/")} == {f"verbs/{verb}", "verbs/_shared"}
