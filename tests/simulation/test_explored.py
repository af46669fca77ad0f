"""A diagnosis whose time does not hold the controls: what it sees is shown, and is no claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult, TriedFix
from simulated_machine import Lab, Weather
from simulation.sessions import run

SEED = 2
"""Of a model with one exact fix; a trial takes about 0.3 s, so that controls and nine blocks take about 13 s."""


def diagnosed(folder: Path, budget_s: float) -> tuple[DiagnoseResult, TriedFix]:
    lab = Lab(SEED, weather=Weather(process=0.001), faster_rewrite="affine-into-weights")
    session = run(SEED, folder, lab, budget_s=budget_s)
    assert session.envelope is not None, session.error
    (fix,) = session.envelope.result.tried
    return session.envelope.result, fix


@pytest.mark.parametrize(("budget_s", "controls"), [(9.0, 0), (40.0, 2)])
def test_without_controls_a_difference_is_shown_and_claimed_by_nobody(
    tmp_path: Path, budget_s: float, controls: int
) -> None:
    result, fix = diagnosed(tmp_path, budget_s)
    assert fix.comparison is not None and fix.comparison.ratio == pytest.approx(0.67, abs=0.03)
    assert len(result.controls) >= controls and bool(result.controls) == bool(controls)
    said = dict(diagnose_words._details(result))
    if controls:
        assert fix.comparison.verdict == "faster" and not result.enough_s
        assert said["checks"].startswith("passed")
    else:
        assert fix.comparison.verdict == "inconclusive" and fix.comparison.n_blocks >= 6
        assert said["checks"] == diagnose_words.NO_CONTROLS
        steps = [few for few, _ in diagnose_words._steps(result)]
        assert steps[0].startswith(f"--budget {result.enough_s:.0f}s is enough")
        assert diagnose_words.headline(result).startswith("inconclusive: -3")
        assert diagnose_words.headline(result).endswith("controls not run")
        again = tmp_path / "again"
        again.mkdir()
        assert diagnosed(again, result.enough_s)[0].controls  # the budget that is told does hold them


def test_a_budget_without_time_for_any_block_names_one_that_has(tmp_path: Path) -> None:
    result, fix = diagnosed(tmp_path, 6.0)
    assert fix.comparison is None and fix.failed.startswith(diagnose_words.TOO_SMALL)
    assert result.enough_s > 6
