"""Compares the outputs of a side with those of the base and determines which of the two is wrong."""

from __future__ import annotations

import msgspec

from ortune.measuring import output_check
from ortune.measuring.budget import Budget
from ortune.measuring.first_run import check_base, check_side, locate_non_finite
from ortune.measuring.measuring import Measuring
from ortune.records import Measured
from ortune.verbs.compare.ranking import Contender


def judge(
    baseline: Measuring,
    new: Contender,
    trial: Measured,
    budget: Budget,
    exact_s: float,
) -> None:
    """Compare the outputs of a new side with those of the base; if they differ, determine which side is wrong.

    Args:
        baseline: The base, and the processes that run trials.
        new: The new side, whose ``difference`` and ``wrong`` are set.
        trial: A trial of the new side with stored outputs.
        budget: The budget of the blocks.
        exact_s: Maximum seconds for an evaluation in float64.
    """
    assert new.contestant is not None
    new.difference = output_check.difference(
        baseline, trial, again=new.contestant, rewritten=new.side.plan.rewrites
    )
    # Before this side is blamed, the base is checked for an optimiser that spoils its outputs, since they are
    # the reference. Only then is the side checked.
    if not new.difference.ok:
        check_base(baseline, "A", budget)
        if baseline.check.wrong:
            new.difference = output_check.difference(
                baseline, trial, again=new.contestant, rewritten=new.side.plan.rewrites
            )
        feeds = new.contestant.feeds
        new.wrong = check_side(baseline, new.side, feeds, new.name, budget, exact_s)
        new.exact = baseline.check.exact_of.get(new.name)
        if not new.wrong:
            locate_non_finite(baseline, new.side, feeds, new.difference, new.name, budget)
    elif new.difference.reference_wrong:
        new.wrong = True  # its outputs are those that the evaluation refutes
    if new.rewritten_exactly(baseline.side):
        # What must not change the outputs is not excused by a tolerance.
        new.difference = msgspec.structs.replace(new.difference, accepting_tolerance=None)
