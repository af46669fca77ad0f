"""Computes the number of trials of each step of a search, and divides a number of trials among the steps.

The unit is the duration of the pilot's trials, which is not known here. The calibration has nine blocks. 30 % of the
trials after the pilot are for the confirmation, within its minimum and maximum, and all others are for the race. With
few trials, fewer plans are tried, but not fewer blocks per plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.phases import (
    ALONE_SHARE,
    CONFIRM_SHARE,
    NEXT_TIMES,
    RACE_TIMES,
    TRY_SHARE,
)

LEAST_CONFIRM, USUAL_CONFIRM, MOST_CONFIRM = 9, 16, 24
"""Minimum, usual and maximum number of blocks of the confirmation."""
LEAST_ALONE, MOST_ALONE = 4, 6
"""Minimum and maximum number of blocks of the last check, which can contradict a gain, but are too few to prove it."""
ROUNDS = (2, 4, 8)
"""Numbers of blocks after which the field of plans is halved."""
FIELD = 5
"""Maximum number of plans per block; a larger field is divided into blocks of similar sizes, each with a baseline."""
SECOND_SHARE = 0.8
"""Fraction of the plans that need a second block; the others are clearly slower in their first block."""
IN_CALIBRATION = 5
"""Maximum number of plans in a block of the calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The division of the trials of a search.

    Attributes:
        plans: Number of plans that are screened.
        confirm_trials: Number of trials that are reserved for the confirmation.
    """

    plans: int
    confirm_trials: float


def calibration_trials(references: int) -> float:
    """Return the number of trials of a calibration: nine blocks of the references and both controls."""
    # Nine blocks of three trials with one reference: 27 trials.
    return CALIBRATION_BLOCKS * (references + 2) * RACE_TIMES


def first_round_trials(plans: int, references: int) -> float:
    """Return the number of trials of the first round, including those that run in the calibration's blocks."""
    # Each plan has two trials in its first round. Up to five plans join each of the nine blocks of the
    # calibration, where the references run anyway. Example: 30 plans, one reference. 45 of their 60 trials
    # run in the calibration; 1.8 x 30 - 45 = 9 are left, and with their references 9 x 1.2 = 10.8: 55.8
    # trials.
    calibrated = min(ROUNDS[0] * plans, CALIBRATION_BLOCKS * IN_CALIBRATION)
    # The others run in blocks of the race, five plans per set of references; a fifth of them is clearly
    # slower in its first block and gets no second.
    rest = max(0.0, (1 + (ROUNDS[0] - 1) * SECOND_SHARE) * plans - calibrated)
    return calibrated + rest * (1 + references / FIELD)


def screening_trials(plans: int, references: int) -> float:
    """Return the number of trials of successive halving; ``references`` counts the baseline and the current plan."""
    # Example: 20 plans, one reference. 40 trials in the first round, then 2 x (10 + 2) = 24 and 4 x (5 + 1) =
    # 24: 88 trials.
    trials, done, live = first_round_trials(plans, references), ROUNDS[0], max(1.0, plans / 2)
    for target in ROUNDS[1:]:
        # Half of the field survives each round; every five plans need their own references in a block.
        trials += (target - done) * (live + -(-live // FIELD) * references)
        done, live = target, max(1.0, live / 2)
    return trials


def least_trials(plans: int, references: int) -> float:
    """Return the number of trials of the smallest search: calibration, first round of ``plans`` plans, confirmation."""
    # Example: one plan, one reference. 27 + 2 + 9 x 2 = 47 trials: 75 s if a trial takes 1.5 s.
    calibration = CALIBRATION_BLOCKS * (references + 2)
    return calibration + first_round_trials(plans, references) + LEAST_CONFIRM * (references + 1)


def divide(trials: float, *, wanted: int, references: int) -> Split | None:
    """Divide the trials of a search; None if they are too few for even one plan.

    Args:
        trials: Number of trials that fit after the pilot.
        wanted: Number of proposed plans.
        references: 1, or 2 if the user's current plan also runs in every block.
    """
    least, most = (n * (references + 1) * RACE_TIMES for n in (LEAST_CONFIRM, MOST_CONFIRM))
    # A share of the budget, but never fewer blocks than any claim needs, and never more time than the maximum
    # of blocks and the last check can use; the rest is for the race.
    confirm = max(CONFIRM_SHARE * trials, least)
    confirm = min(confirm, most + 2 * MOST_ALONE * RACE_TIMES)
    # The calibration has a fixed number of blocks, not a share: in a small budget it is the larger part, and
    # if nothing is left with it and a confirmation, there is no race.
    race = trials - calibration_trials(references) - confirm
    if race < first_round_trials(1, references) * RACE_TIMES:
        return None
    return Split(plans=_plans(race, wanted, references), confirm_trials=confirm)


def shortest(trials: float, *, references: int, beyond: float, least_share: float) -> Split | None:
    """Divide the trials of a search of one plan whose last blocks may exceed the budget; None if they are too few.

    Args:
        trials: Number of trials that fit after the pilot.
        references: See ``divide``.
        beyond: Number of trials by which the confirmation may exceed the budget.
        least_share: Least fraction of the needed trials that must fit.
    """
    needed = needed_trials(1, references)
    if trials < least_share * needed or trials + beyond < needed:
        return None
    before = calibration_trials(references) + first_round_trials(1, references) * RACE_TIMES
    return Split(plans=1, confirm_trials=max(0.0, trials - before))


def explored_plans(trials: float, *, wanted: int, references: int) -> int:
    """Return the number of plans to compare with the default if no confirmation fits; 0 without time for a block.

    Half of the trials are for the first blocks, so that the leaders get further blocks; two plans get first blocks in
    any case.
    """

    def takes(plans: int, blocks: int) -> float:
        return NEXT_TIMES * blocks * (plans + -(-plans // FIELD) * references)

    # Added one by one, since the cost has steps: the sixth plan needs a further block with its own
    # references.
    plans = 0
    while plans < wanted and takes(plans + 1, ROUNDS[0]) <= trials * (1.0 if plans < 2 else 0.5):
        plans += 1
    # If not even two blocks of one plan fit, one block is shown as a single observation.
    return plans or int(wanted > 0 and takes(1, 1) <= trials)


def divide_again(trials: float, race: float, *, wanted: int, references: int) -> tuple[int, float]:
    """Divide the trials that are left when the controls failed and must be repeated.

    Args:
        trials: Number of trials that fit in the time left.
        race: Number of these trials that are not reserved for the confirmation.
        wanted: Number of plans in the race.
        references: See ``divide``.

    Returns:
        The number of plans that fit, and the number of trials by which the controls, the first round of one plan and
        the shortest confirmation exceed the budget, or 0 if these fit.
    """
    plans = _plans(race - calibration_trials(references), wanted, references)
    return plans, max(0.0, least_trials(1, references) * RACE_TIMES - trials)


def _plans(race: float, wanted: int, references: int) -> int:
    """Return the number of plans whose first blocks fit in the trials of the race; at least one."""
    # The caller checked that one plan fits into the whole race. TRY_SHARE limits only further plans, since
    # the leader of several needs time for refinement.
    plans = 1
    while plans < wanted and first_round_trials(plans + 1, references) * RACE_TIMES <= TRY_SHARE * race:
        plans += 1
    return plans


def needed_trials(plans: int, references: int) -> float:
    """Return the number of trials after the pilot for which ``divide`` returns ``plans`` plans."""
    calibration = calibration_trials(references)
    # The inverse of ``divide``: the first round may take a share of the race, which is what the confirmation
    # leaves. A single plan gets all of the race, as in ``divide``, since there is nothing to halve.
    race = first_round_trials(plans, references) * RACE_TIMES / (TRY_SHARE if plans > 1 else 1.0)
    # ``divide`` reserves the larger of nine blocks and 30 % for the confirmation. If the share is larger,
    # budget = calibration + race + 0.3 x budget.
    least = calibration + race + least_confirm_trials(references)
    return max(least, (calibration + race) / (1 - CONFIRM_SHARE))


def least_confirm_trials(references: int) -> float:
    """Return the number of trials of the shortest confirmation."""
    return LEAST_CONFIRM * (references + 1) * RACE_TIMES


def alone_trials(trials: float) -> float:
    """Return the number of trials reserved for the last check; 0 if the confirmation needs all that are left."""
    # Two arms, winner and reference; it runs only if it takes little from the confirmation, which makes the
    # claim.
    wanted = 2 * MOST_ALONE * RACE_TIMES
    return wanted if wanted < ALONE_SHARE * trials else 0.0


def other_plans(trials: float, references: int) -> int:
    """Return the number of further plans that fit in the shortest confirmation, with the last check reserved."""
    # Others in the same blocks do not cost the winner certainty as long as the fewest blocks of a claim still
    # fit. Example: 36 trials are left, so each of nine blocks has four: one reference, the winner and two
    # others.
    return max(0, int((trials - alone_trials(trials)) / (LEAST_CONFIRM * RACE_TIMES)) - references - 1)


def confirm_blocks(trials: float, references: int) -> int:
    """Return the number of blocks of the confirmation: as many as fit, limited to between 9 and 24."""
    return max(LEAST_CONFIRM, min(MOST_CONFIRM, int(trials / ((references + 1) * RACE_TIMES))))
