"""Whole sessions on a simulated machine: whatever it does, what must never happen does not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from facts import facts
from ortune.store.db import Store
from ortune.targets.machine import MOST_ALIVE
from ortune.verbs._shared.quantities import seconds
from ortune.verbs.tune import details as tune_details
from simulated_machine import Faults, Killed, Lab, Weather
from simulation.sessions import VERBS, Session, run, scenario

# What each plan gives for these inputs is run once in a process, so all sessions share one.
pytestmark = pytest.mark.xdist_group("sessions")

SEEDS = range(200)
INPUTS = 7
"""``--inputs`` of all that runs within seconds: what the plans give for them is known after a few sessions."""
MANY = 10_000
"""For ``pytest -m long``: hours."""
LEAST_OF_A_CLAIM = 6
"""Blocks: the smallest p of an exact test on five is 2 in 32, above 0.05."""


def require_sound(session: Session, store: Path) -> None:
    """What holds of every session, whatever befell it."""
    lab = session.lab
    assert not lab.running
    longest_s = max((ended - began for began, ended, _ in lab.groups), default=0.0)
    assert session.spent_s <= max(1.1 * session.budget_s, session.budget_s + longest_s), "budget"
    with Store(store) as kept:
        kinds = [event.kind for head in kept.sessions() for event in kept.events(head.id)]
    n_outcomes = sum(kind in ("outcome", "untimed-outcome") for kind in kinds)
    assert n_outcomes == lab.n_trials, "no result is lost"
    if session.envelope is None:
        return
    assert kinds[-1] == "result"
    for comparison in session.comparisons:
        if comparison.verdict in ("faster", "slower", "equivalent"):
            assert comparison.n_blocks >= LEAST_OF_A_CLAIM
            assert comparison.ratio_high is not None and comparison.ratio_low <= comparison.ratio
    if (session.envelope.verdict or "") in ("faster", "slower"):
        assert any(c.verdict == session.envelope.verdict for c in session.comparisons)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_keeps_its_promises(seed: int, tmp_path: Path) -> None:
    require_sound(run(seed, tmp_path, inputs=INPUTS), tmp_path / "store")


@pytest.mark.parametrize("verb", sorted(set(VERBS)))
@pytest.mark.parametrize("disk_full_at", [0, 3, 9, 20])
def test_a_disk_that_becomes_full_loses_nothing(verb: str, disk_full_at: int, tmp_path: Path) -> None:
    lab = Lab(0, faults=Faults(disk_full_at=disk_full_at))
    session = run(VERBS.index(verb), tmp_path, lab, inputs=INPUTS, budget_s=60.0)
    require_sound(session, tmp_path / "store")
    if session.envelope is None:
        assert session.error == "disk-full", session.lines


@pytest.mark.parametrize("verb", sorted(set(VERBS)))
@pytest.mark.parametrize(("crowd", "crowd_at"), [(3.0, 2), (3.0, 8), (8.0, 5), (8.0, 12), (20.0, 8)])
@pytest.mark.parametrize("budget_s", [12.0, 60.0])
def test_a_machine_that_becomes_crowded_costs_blocks_and_no_budget(
    verb: str, crowd: float, crowd_at: int, budget_s: float, tmp_path: Path
) -> None:
    lab = Lab(0, weather=Weather(crowd=crowd, crowd_at=crowd_at))
    session = run(VERBS.index(verb), tmp_path, lab, inputs=INPUTS, budget_s=budget_s)
    require_sound(session, tmp_path / "store")


@pytest.mark.parametrize("verb", ["tune", "diagnose"])
@pytest.mark.parametrize(("check_s", "budget_s"), [(0.3, 20.0), (1.0, 60.0), (1.5, 20.0)])
def test_slow_rules_cost_checks_and_no_budget(
    verb: str, check_s: float, budget_s: float, tmp_path: Path
) -> None:
    lab = Lab(0, weather=Weather(check_s=check_s))
    session = run(VERBS.index(verb), tmp_path, lab, inputs=INPUTS, budget_s=budget_s)
    require_sound(session, tmp_path / "store")
    assert session.envelope is not None and session.envelope.result is not None
    (said,) = (note for note in session.envelope.result.notes if "skipped for lack of time" in note)
    enough = re.search(r"--budget (\w+) is enough", said)
    assert enough and seconds(enough[1], "--budget") > budget_s


@pytest.mark.long
def test_thousands_of_sessions_keep_their_promises(tmp_path: Path) -> None:
    for seed in range(MANY):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        require_sound(run(seed, folder), folder / "store")
        shutil.rmtree(folder)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        answers = []
        for again in range(2):
            folder = tmp_path / f"{seed}-{again}" / "x"
            folder.mkdir(parents=True)
            session = run(seed, folder, inputs=INPUTS)
            assert session.envelope is not None
            text = msgspec.json.encode(session.envelope).decode()
            answers.append(text.replace(str(folder), "").replace(session.envelope.result.session, ""))
        assert answers[0] == answers[1]


LONG = [seed for seed in range(40) if scenario(seed)[1] >= 60.0]
"""With time for a confirmation, of each verb several."""


@pytest.mark.parametrize(
    "seed", [seed if seed < 20 else pytest.param(seed, marks=pytest.mark.long) for seed in LONG]
)
def test_a_session_that_is_killed_goes_on_and_measures_nothing_twice(seed: int, tmp_path: Path) -> None:
    lab, groups = Lab(seed, weather=Weather(process=0.01)), iter((4, 14, 24))
    session, kills = None, 0
    while session is None:
        lab.faults = Faults(killed_at=next(groups, None))
        try:
            session = run(seed, tmp_path, lab, "newest" if kills else None, inputs=INPUTS)
        except Killed:
            kills += 1
    assert kills
    with Store(tmp_path / "store") as kept:
        (head,) = kept.sessions()
        kinds = [event.kind for event in kept.events(head.id)]
    assert sum(kind in ("outcome", "untimed-outcome") for kind in kinds) == lab.n_trials, "no result is lost"
    if session.envelope is None:
        assert session.error == "invalid"  # as often as two identical plans differ by chance
        return
    before = kinds[: len(kinds) - kinds[::-1].index("resumed")].count("outcome")
    played = [
        int(
            re.search(
                r"(\d+) trials "
                r"reused",
                note,
            )[1]
        )
        for note in session.envelope.result.notes
        if "trials reused" in note
    ]
    # A block that was cut is measured again: it holds as many trials as may live at once.
    assert played and before - MOST_ALIVE <= played[0] <= before


def test_budget_that_is_left_is_given_back_with_the_arithmetic(tmp_path: Path) -> None:
    session = run(1, tmp_path, inputs=INPUTS, budget_s=60.0)
    assert session.envelope is not None
    budget = session.envelope.result.budget
    assert budget.left_s > 1.0 and budget.next_s > budget.left_s  # else that step would have been taken
    assert session.spent_s + budget.left_s <= session.budget_s + 1e-6
    assert f"{budget.left_s:.0f} s left" in tune_details.spent(session.envelope.result)
    facts(budget.unspent, f"{budget.left_s:.0f} s of the 60 s were not used", f"takes {budget.next_s:.0f} s")
