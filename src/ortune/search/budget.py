"""What a tuning budget holds, said before it starts and kept.

The calibration is nine blocks. 30 % of what is left after the pilot is for the confirmation, within its fewest and most
blocks, and the rest is the race. A budget too small takes fewer plans, never fewer blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.phases import (
    ALONE_SHARE,
    CONFIRM_SHARE,
    NEXT_TIMES,
    PROFILED_TRIALS,
    RACE_TIMES,
    TRY_SHARE,
)

LEAST_CONFIRM, USUAL_CONFIRM, MOST_CONFIRM = 9, 16, 24
"""Blocks of the confirmation: the fewest, as many as it gets where the time allows, and the most."""
LEAST_ALONE, MOST_ALONE = 4, 6
"""Blocks of the last check alone: enough to contradict, too few to prove."""
ROUNDS = (2, 4, 8)
"""Blocks after which the field is halved."""
FIELD = 5
"""Live plans in one block; a larger field is divided among several of nearly one size, each with its own baseline."""
SECOND_SHARE = 0.8
"""Of the plans, those that need a second block: the others are plainly slower in their first."""
IN_CALIBRATION = 5
"""Plans that take their turns in a block of the calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A budget, divided.

    Attributes:
        plans: How many plans the screening holds.
        confirm_ns: Kept for the confirmation.
    """

    plans: int
    confirm_ns: float


def calibration_ns(trial_ns: float, references: int) -> float:
    """Returns the time of one calibration: nine blocks of the references and both controls."""
    # Nine blocks of three trials with one reference: 27 trials.
    return CALIBRATION_BLOCKS * (references + 2) * trial_ns * RACE_TIMES


def tries(plans: int, references: int) -> float:
    """Trials of the first round of so many plans, which take their turns in the calibration's blocks if they fit."""
    # Each plan has two trials in its first round. Up to five plans join each of the nine blocks of the calibration,
    # whose references run there anyway.
    # Example: 30 plans, one reference. 45 of their 60 trials run in the calibration; 1.8 x 30 - 45 = 9 are
    # left, and with their references 9 x 1.2 = 10.8: 55.8 trials.
    calibrated = min(ROUNDS[0] * plans, CALIBRATION_BLOCKS * IN_CALIBRATION)
    # The others run in blocks of the race, five plans to one set of references; a fifth of them is plainly slower in
    # its first block and has no second.
    rest = max(0.0, (1 + (ROUNDS[0] - 1) * SECOND_SHARE) * plans - calibrated)
    return calibrated + rest * (1 + references / FIELD)


def screening_trials(plans: int, references: int) -> float:
    """Trials of successive halving over that many plans; ``references`` are baseline and current."""
    # Example: 20 plans, one reference. 40 trials in the first round, then 2 x (10 + 2) = 24 and 4 x (5 + 1) =
    # 24: 88 trials.
    trials, done, live = tries(plans, references), ROUNDS[0], max(1.0, plans / 2)
    for target in ROUNDS[1:]:
        # Half of the field survives each round; every five plans need references of their own in a block.
        trials += (target - done) * (live + -(-live // FIELD) * references)
        done, live = target, max(1.0, live / 2)
    return trials


def least_trials(plans: int, references: int) -> float:
    """Trials of the smallest session that tries so many plans: calibration, first round, confirmation."""
    # Example: one plan, one reference. 27 + 2 + 9 x 2 = 47 trials: 75 s where a trial takes 1.5 s.
    calibration = CALIBRATION_BLOCKS * (references + 2)
    return calibration + tries(plans, references) + LEAST_CONFIRM * (references + 1)


def divide(budget_ns: float, trial_ns: float, *, wanted: int, references: int) -> Split | None:
    """Divides a budget; None when it holds not even one plan.

    Args:
        budget_ns: What is left of the budget after the pilot.
        trial_ns: What a trial costs.
        wanted: Plans that are proposed.
        references: 1, or 2 where the user's current plan runs in every block too.
    """
    cost = trial_ns * RACE_TIMES
    calibration = calibration_ns(trial_ns, references)
    least, most = (n * (references + 1) * cost for n in (LEAST_CONFIRM, MOST_CONFIRM))
    # A share of the budget, but never fewer blocks than any claim needs, and never more time than the most blocks and
    # the last check alone can use: what they cannot use is the race's.
    confirm = max(CONFIRM_SHARE * budget_ns, least)
    confirm = min(confirm, most + 2 * MOST_ALONE * cost)
    # Calibration comes first and is a fixed number of blocks, so that it is no share: in a small budget it is the
    # larger part, and where nothing is left beside it and a confirmation nothing is raced.
    race = budget_ns - calibration - confirm
    if race < tries(1, references) * cost:
        return None
    return Split(plans=_plans(race, cost, wanted, references), confirm_ns=confirm)


def exploratory(left_ns: float, trial_ns: float, *, wanted: int, references: int) -> int:
    """Return the number of plans that are run next to the default if no confirmation fits, 0 if no block fits.

    Half of the time is for the first blocks, so that what leads gets further ones; two plans get theirs in any case.
    """
    cost = trial_ns * NEXT_TIMES

    def takes(plans: int, blocks: int) -> float:
        return blocks * (plans + -(-plans // FIELD) * references) * cost

    # Added one by one, as the sum has steps: the sixth plan needs a further block with references of its own.
    plans = 0
    while plans < wanted and takes(plans + 1, ROUNDS[0]) <= left_ns * (1.0 if plans < 2 else 0.5):
        plans += 1
    # Not even two blocks of one plan fit: one block is still shown, as a single observation.
    return plans or int(wanted > 0 and takes(1, 1) <= left_ns)


def enough_s(needed_ns: float) -> int:
    """A budget that holds what takes so long, in whole tens of seconds: no run takes as long as the last."""
    return math.ceil(1.2e-9 * needed_ns / 10) * 10


def repeat(
    left_ns: float, race_ns: float, trial_ns: float, *, wanted: int, references: int
) -> tuple[int, float]:
    """Divides what is left once the controls have failed and are repeated.

    Args:
        left_ns: Of the budget.
        race_ns: Of that, what is not kept for the confirmation.
        trial_ns: What a trial costs.
        wanted: Plans that are raced.
        references: As in ``divide``.

    Returns:
        How many of the plans it holds, and the nanoseconds beyond the budget that controls, the first round of one plan
        and the fewest blocks of a confirmation take: 0 where it holds them.
    """
    cost = trial_ns * RACE_TIMES
    plans = _plans(race_ns - calibration_ns(trial_ns, references), cost, wanted, references)
    return plans, max(0.0, least_trials(1, references) * cost - left_ns)


def _plans(race_ns: float, cost_ns: float, wanted: int, references: int) -> int:
    """Plans whose first blocks that much of the race holds; one at least."""
    # The caller has seen that one plan fits the whole race. TRY_SHARE limits only the plans beyond it, as the
    # leader of several needs time for refinement.
    plans = 1
    while plans < wanted and tries(plans + 1, references) * cost_ns <= TRY_SHARE * race_ns:
        plans += 1
    return plans


def needed_ns(plans: int, trial_ns: float, references: int) -> float:
    """The budget that would hold that many plans."""
    cost = trial_ns * RACE_TIMES
    calibration = calibration_ns(trial_ns, references)
    # The inverse of ``divide``: the first round may take a share of the race, which is what the confirmation leaves.
    # One plan alone has all of the race, as ``divide`` gives it: there is nobody to halve it with.
    race = tries(plans, references) * cost / (TRY_SHARE if plans > 1 else 1.0)
    # ``divide`` keeps the larger of nine blocks and 30 % for the confirmation. Where the share is the larger
    # one, budget = calibration + race + 0.3 x budget.
    least = calibration + race + LEAST_CONFIRM * (references + 1) * cost
    return max(least, (calibration + race) / (1 - CONFIRM_SHARE))


def one_more_ns(next_trial_ns: float, trial_ns: float, references: int, *, confirmed: bool) -> float:
    """Returns what one more configuration takes: its blocks in the race, and a confirmation where one follows.

    Args:
        next_trial_ns: What the race takes the next trial to cost.
        trial_ns: What a trial of the confirmation costs.
        references: As in ``divide``.
        confirmed: False if plans are run without a confirmation, for which one block is enough.
    """
    if not confirmed:
        return (references + 1) * next_trial_ns
    screening_ns = math.ceil(screening_trials(1, references)) * next_trial_ns
    return screening_ns + least_confirm_ns(trial_ns, references)


def least_confirm_ns(trial_ns: float, references: int) -> float:
    """Returns the time of the fewest blocks of a confirmation."""
    return LEAST_CONFIRM * (references + 1) * trial_ns * RACE_TIMES


def alone_ns(trial_ns: float, left_ns: float) -> float:
    """Returns the time kept for the last check alone; 0 where the confirmation itself needs all of what is left."""
    # Two arms, winner and default; whether it is worth its time depends on what it takes from the confirmation, which
    # alone makes a claim.
    wanted = 2 * MOST_ALONE * trial_ns * RACE_TIMES
    return wanted if wanted < ALONE_SHARE * left_ns else 0.0


def others(left_ns: float, trial_ns: float, references: int) -> int:
    """Return how many plans besides the winner fit in the fewest blocks of a confirmation, and the last check."""
    # Others in the same blocks cost the winner no certainty as long as the fewest blocks of a claim still fit.
    block_ns = (left_ns - alone_ns(trial_ns, left_ns)) / LEAST_CONFIRM
    # Example: 36 trials are left, so each of nine blocks has four: one reference, the winner and two others.
    return max(0, int(block_ns / (trial_ns * RACE_TIMES)) - references - 1)


def confirm_blocks(left_ns: float, trial_ns: float, references: int) -> int:
    """Blocks of the confirmation: as many as the time left holds, 9 to 24."""
    return max(LEAST_CONFIRM, min(MOST_CONFIRM, int(left_ns / ((references + 1) * trial_ns * RACE_TIMES))))


def profiled_pair_s(trial_ns: float) -> float:
    """Returns the seconds of one profiled process of each of two sides, of trials that take so long."""
    return PROFILED_TRIALS * trial_ns / 1e9
