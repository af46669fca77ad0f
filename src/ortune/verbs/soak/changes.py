"""Soaks of the changes that may explain rising memory, group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortune.measuring.application_soak import ApplicationSoak
from ortune.measuring.budget import Budget
from ortune.measuring.soak_experiments import A, experiments
from ortune.measuring.soaking import ModelSoak
from ortune.records import Plan, SoakChange, SoakExperiment, SoakPoint
from ortune.verbs.soak import judging
from ortune.verbs.soak.result import PointRow

LEAST_ALIVE = 2
"""Minimum number of processes alive at the same time for a comparison of a change with the unchanged process."""


def soak_changes(
    parts: Sequence[Sequence[tuple[A, SoakChange, Plan | None]]],
    budget: Budget,
    begin: Callable[[list[A], float], ModelSoak | ApplicationSoak],
    progress: Callable[[Sequence[SoakPoint]], None],
    *,
    growing: bool,
) -> tuple[list[SoakExperiment], list[PointRow], bool]:
    """Soak groups of changes next to the unchanged process.

    Args:
        parts: Groups of changes; the first member of each group is the unchanged process.
        budget: The budget that the groups share.
        begin: Makes a soak, not yet started, from the arms of a group and its duration in seconds.
        progress: Callback with the last point of each process, after each round.
        growing: Whether the memory of the unchanged process grows steadily; False if it rises to a level.

    Returns:
        The effects of the changes, the points of their memory, and False if the user stopped the soak.
    """
    found: list[SoakExperiment] = []
    points: list[PointRow] = []
    for number, part in enumerate(parts):
        left = budget.share(1 / (len(parts) - number))
        soak = begin([arm for arm, _, _ in part], left.left_s)
        soak.goes_on = True
        try:
            going = soak.start() and soak.run(left.end_s, progress)
        finally:
            soaked = soak.close()
        changes = [(change, plan) for _, change, plan in part]
        found += experiments(soaked, changes, growing=growing)
        points += [judging.row(each.name, point) for each in soaked for point in each.points]
        if not going:
            return found, points, False
    return found, points, True
