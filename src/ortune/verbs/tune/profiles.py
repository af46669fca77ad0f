"""Profiles of a tuning: the default before the race; the winner and the replaced plan after the confirmation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortune.engines.profiling.headroom import short_profile
from ortune.engines.profiling.why import explain_difference
from ortune.engines.racing.tuning import Tuning
from ortune.errors import OrtuneError
from ortune.objectives import Objective
from ortune.records import Headroom, ProfileDifference, ProfileResult
from ortune.search.blocks import BASE
from ortune.search.figures import TIMES, figure
from ortune.search.halving import CURRENT
from ortune.search.phases import PROFILE_BEFORE_RACE_SHARE
from ortune.show import headroom_words
from ortune.show.difference_words import worded
from ortune.verbs.tune.result import TuneResult

PROFILED_NODES = 10


def default_headroom(
    run: Tuning, objective: Objective, store: Path | None
) -> tuple[Headroom | None, ProfileResult | None, ProfileResult | None]:
    """Return (headroom, part of the profile drawn on the page, whole profile) from a short profile of the default.

    A resumed session reads the first two from its journal; the whole profile is then None.

    Args:
        run: The tuning, with a timed default.
        objective: Objective of the race; the default is profiled only if the objective is the time of runs.
        store: Folder with the stored peak performance of the machine.
    """
    whole: list[ProfileResult] = []

    def profiled() -> tuple[Headroom | None, ProfileResult | None]:
        latency = figure(run.baseline.pilot.first, "median")
        if latency is None or objective not in TIMES:
            return None, None
        most_ns = run.spare_ns(PROFILE_BEFORE_RACE_SHARE)
        profile = short_profile(run.baseline, latency, store, most_ns=most_ns, read_ns=1e9 * run.map_s)
        if profile is None or profile.headroom is None:
            return None, None
        whole.append(profile)
        headroom = headroom_words.worded(profile.headroom)
        run.watch.say(headroom.sentence)
        return headroom, _short(profile)

    headroom, short = run.replay.once("headroom", tuple[Headroom | None, ProfileResult | None], profiled)
    return headroom, short, whole[0] if whole else None


def _short(profile: ProfileResult) -> ProfileResult:
    """Return the part of a profile that the page shows: categories and the most expensive nodes."""
    nodes = sorted(profile.nodes, key=lambda node: -node.time_ns)[:PROFILED_NODES]
    return ProfileResult(
        trace=profile.trace,
        n_runs=profile.n_runs,
        wall_ns=profile.wall_ns,
        slowdown_ratio=profile.slowdown_ratio,
        categories=profile.categories,
        nodes=tuple(nodes),
        gpu_run=profile.gpu_run,
    )


def winner_difference(run: Tuning, result: TuneResult) -> ProfileDifference | None:
    """Profile the winner and the replaced plan and return the difference; None without a winner or enough time."""
    executor, leader = run.baseline.executor, run.search.winner
    beside, figures = BASE, result.default_figures
    if result.current_figures is not None and run.search.race.with_current:
        beside, figures = CURRENT, result.current_figures
    if not result.changes or leader is None or leader.plan != result.winner or beside not in executor.arms:
        return None
    base, new = executor.arms[beside], executor.arms[leader.arm]
    if not run.why_processes or run.watch.stop() or result.winner_figures is None:
        return None
    latencies = (figures.latency_ns, result.winner_figures.latency_ns)
    sides = [replace(run.side, plan=a.plan, runs=a.model, runtime=a.runtime) for a in (base, new)]
    try:
        difference = explain_difference(
            run.baseline,
            (sides[0], sides[1]),
            (base, new),
            latencies,
            None,
            processes=run.why_processes,
            trial_ns=run.baseline.pilot.trial_ns,
            # Profiles may take far longer than forecast: 23 s instead of 10 s with a busy neighbour.
            budget=run.whole_budget.reserve(run.answer_s + run.map_s).running,
        )
    except (OrtuneError, OSError):
        return None  # an answer is not lost because its reason is
    return worded(difference, "the winner")
