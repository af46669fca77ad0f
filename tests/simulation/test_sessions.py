"""Whole sessions on a simulated machine: whatever it does, what must never happen does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ortune.store.db import Store
from simulated_machine import Killed
from simulation.sessions import VERBS, Session, run, scenario

SEEDS = range(60)
"""``pytest -m long`` runs ten thousand."""
LEAST_OF_A_CLAIM = 6
"""Blocks: the smallest p of an exact test on five is 2 in 32, above 0.05."""


def require_sound(session: Session, store: Path) -> None:
    """What holds of every session, whatever befell it."""
    lab = session.lab
    assert not lab.running
    longest_s = max((ended - began for began, ended, _ in lab.groups), default=0.0)
    assert session.spent_s <= max(1.1 * session.budget_s, session.budget_s + longest_s), "budget"
    if session.envelope is None:
        return
    for comparison in session.comparisons:
        if comparison.verdict in ("faster", "slower", "equivalent"):
            assert comparison.n_blocks >= LEAST_OF_A_CLAIM
            assert comparison.ratio_high is not None and comparison.ratio_low <= comparison.ratio
    if (session.envelope.verdict or "") in ("faster", "slower"):
        assert any(c.verdict == session.envelope.verdict for c in session.comparisons)
    with Store(store) as kept:
        (head,) = kept.sessions()
        kinds = [event.kind for event in kept.events(head.id)]
    n_outcomes = sum(kind in ("outcome", "untimed-outcome") for kind in kinds)
    assert n_outcomes == sum(len(plans) for _, _, plans in lab.groups), "no result is lost"
    assert kinds[-1] == "result"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_keeps_its_promises(seed: int, tmp_path: Path) -> None:
    require_sound(run(seed, tmp_path), tmp_path / "store")


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        answers = []
        for again in range(2):
            folder = tmp_path / f"{seed}-{again}" / "x"
            folder.mkdir(parents=True)
            session = run(seed, folder)
            assert session.envelope is not None
            text = msgspec.json.encode(session.envelope).decode()
            answers.append(text.replace(str(folder), "").replace(session.envelope.result.session, ""))
        assert answers[0] == answers[1]


TUNINGS = [seed for seed in range(30) if VERBS[seed % len(VERBS)] == "tune"]


@pytest.mark.parametrize("seed", TUNINGS)
def test_a_session_that_is_killed_goes_on_and_measures_nothing_twice(seed: int, tmp_path: Path) -> None:
    *_, whole = scenario(seed)
    (tmp_path / "whole").mkdir()
    run(seed, tmp_path / "whole", whole)
    *_, lab = scenario(seed)
    folder = tmp_path / "killed"
    folder.mkdir()
    killed = 0
    for cut in (0.2, 0.5, 0.9):
        lab.faults = replace(lab.faults, killed_at=int(cut * len(whole.groups)))
        try:
            session = run(seed, folder, lab, "newest" if killed else None)
        except Killed:
            killed += 1
            continue
        break
    else:
        lab.faults = replace(lab.faults, killed_at=None)
        session = run(seed, folder, lab, "newest")
    assert session.envelope is not None
