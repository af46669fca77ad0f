"""An answer names one budget that is enough, wherever it is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortune.show import markdown, terminal
from ortune.verbs.compare import words as compare_words
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.tune import words as tune_words
from simulated_machine import Lab, Weather
from simulation.sessions import VERBS, run

# What each plan gives for these inputs is run once in a process, so all sessions share one.
pytestmark = pytest.mark.xdist_group("sessions")

WORDS = {"tune": tune_words, "compare": compare_words, "diagnose": diagnose_words}


def budgets(text: str, asked_s: float) -> set[str]:
    """Those that are named beside the one that was asked for."""
    return {*re.findall(r"--budget[ =](\d+)", text)} - {f"{asked_s:.0f}"}


@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize("budget_s", [4.0, 8.0, 13.0, 20.0, 30.0, 45.0, 90.0])
@pytest.mark.parametrize("check_s", [0.0, 0.6])
def test_one_budget_is_enough_wherever_it_is_told(
    verb: str, budget_s: float, check_s: float, tmp_path: Path
) -> None:
    lab = Lab(2, weather=Weather(check_s=check_s, crowd=2.0, crowd_at=6))
    session = run(VERBS.index(verb), tmp_path, lab, inputs=7, budget_s=budget_s)
    assert session.envelope is not None, session.error
    document = WORDS[verb].document(session.envelope)
    texts = [terminal.plain(document, whole=True), markdown.render(document), *session.lines]
    assert len(set().union(*(budgets(text, budget_s) for text in texts))) <= 1, "\n".join(texts)
