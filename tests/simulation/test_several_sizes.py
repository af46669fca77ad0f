"""Several sizes of one model share one budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated_machine import Lab
from simulation.sessions import VERBS, run

pytestmark = pytest.mark.xdist_group("sessions")

SIZES = (1, 2, 4)


@pytest.mark.parametrize("verb", sorted(set(VERBS)))
@pytest.mark.parametrize("budget_s", [8.0, *(pytest.param(s, marks=pytest.mark.long) for s in (20.0, 60.0))])
def test_several_sizes_share_one_budget(verb: str, budget_s: float, tmp_path: Path) -> None:
    lab = Lab(3)
    session = run(VERBS.index(verb), tmp_path, lab, inputs=7, budget_s=budget_s, sizes=SIZES)
    assert session.envelope is not None, session.error
    assert len(session.envelope.workload.cases) == len(SIZES)
    longest_s = max(ended - began for began, ended, _ in lab.groups)
    assert session.spent_s <= max(1.1 * budget_s, budget_s + longest_s)
