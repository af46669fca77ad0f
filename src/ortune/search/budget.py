"""What a tuning budget holds, said before it starts and kept.

At most a quarter goes to calibration where the budget allows, at least 30 % is kept for confirmation, the rest is
the race. A budget too small takes fewer plans, never fewer blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortune.search.controls import CALIBRATION_BLOCKS

LEAST_CONFIRM, MOST_CONFIRM = 9, 24
ROUNDS = (2, 4, 8)
"""Blocks after which the field is halved."""
FIELD = 5
"""Live plans in one block; a larger field is dealt at random into several, each with its own baseline."""
SCREEN_SHARE = 0.6
"""Of the race; the rest is for combinations, the neighbourhood of the leader and pruning."""
CONFIRM_SHARE = 0.3
SPARE = 1.06
"""Trials after the pilot cost a little more than the pilot said: new plans load more slowly, disks are busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A budget, divided.

    Attributes:
        plans: How many plans the screening holds.
        confirm_ns: Kept for the confirmation.
    """

    plans: int
    confirm_ns: float


def screening_trials(plans: int, references: int) -> float:
    """Trials of successive halving over that many plans; ``references`` are baseline and current."""
    trials, done, live = 0.0, 0, float(plans)
    for target in ROUNDS:
        blocks = -(-live // FIELD)
        trials += (target - done) * (live + blocks * references)
        done, live = target, max(1.0, live / 2)
    return trials


def divide(budget_ns: float, trial_ns: float, *, wanted: int, references: int) -> Split | None:
    """Divides a budget; None when it holds not even one plan.

    Args:
        budget_ns: What is left of the budget after the pilot.
        trial_ns: What a trial costs.
        wanted: Plans that are proposed.
        references: 1, or 2 where the user's current plan runs in every block too.
    """
    cost = trial_ns * SPARE
    calibration = CALIBRATION_BLOCKS * (references + 2) * cost
    confirm = max(CONFIRM_SHARE * budget_ns, LEAST_CONFIRM * (references + 1) * cost)
    race = budget_ns - calibration - confirm
    if race < screening_trials(1, references) * cost:
        return None
    plans = 1
    share = SCREEN_SHARE if wanted > 1 else 1.0
    while plans < wanted and screening_trials(plans + 1, references) * cost <= share * race:
        plans += 1
    return Split(plans=plans, confirm_ns=confirm)


def needed_ns(plans: int, trial_ns: float, references: int) -> float:
    """The budget that would hold that many plans."""
    cost = trial_ns * SPARE
    calibration = CALIBRATION_BLOCKS * (references + 2) * cost
    race = screening_trials(plans, references) * cost / (SCREEN_SHARE if plans > 1 else 1.0)
    least = calibration + race + LEAST_CONFIRM * (references + 1) * cost
    return max(least, (calibration + race) / (1 - CONFIRM_SHARE))


def confirm_blocks(left_ns: float, trial_ns: float, references: int) -> int:
    """Blocks of the confirmation: as many as the time left holds, 9 to 24."""
    return max(LEAST_CONFIRM, min(MOST_CONFIRM, int(left_ns / ((references + 1) * trial_ns * SPARE))))
