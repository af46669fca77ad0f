"""Finds the release in which memory began to grow: soaks the releases next to each other with the same calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise

from ortune.errors import Interrupted, MeasurementError
from ortune.inputs.fresh import fresh_inputs
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.soaked import as_series, growth_figure, settled_call, was_called
from ortune.measuring.soaking import ModelSoak, SoakArm, SoakedProcess
from ortune.records import Failed, GrowthFigure, Runtime
from ortune.show.message_words import texts
from ortune.stats import soak as soaks
from ortune.verbs._shared import soak_progress
from ortune.verbs.history import words as history_words
from ortune.verbs.history.result import HistoryResult, ReleaseRow

STATISTIC = "memory-growth"
FIRST_SHARE = 0.2
"""Maximum fraction of the remaining time for the first run of the model."""


def measure(
    opened: Experiment, baseline: Measuring, runtimes: Mapping[str, Runtime], missing: Mapping[str, str]
) -> HistoryResult:
    """Measure how memory changes with calls in each release.

    Raises:
        OrtuneError: Nothing could be measured.
    """
    baseline.find_inputs(FIRST_SHARE * opened.budget.left_s)
    opened.replay.record_other_work()
    budget = opened.budget.running.reserve(opened.answer_s)
    names = list(runtimes)
    at_once = max(1, baseline.executor.most_alive)
    n_groups = -(-len(names) // at_once)
    parts = [names[number::n_groups] for number in range(n_groups)]
    opened.watch.say(history_words.soaks(len(names), budget.left_s))
    fresh, base = fresh_inputs(baseline.work), baseline.arm("as-is")
    rows: dict[str, ReleaseRow] = {}
    for number, part in enumerate(parts):
        arms = [
            SoakArm(
                arm=replace(base, name=f"soak-{name}", runtime=runtimes[name]),
                fresh=fresh,
                seed=baseline.work.seed,
            )
            for name in part
        ]
        left = budget.share(1 / (len(parts) - number))
        soak = ModelSoak(opened, baseline, arms, left.left_s)
        soak.goes_on = True
        try:
            going = soak.start() and soak.run(left.end_s, partial(soak_progress.show, opened, "release"))
        finally:
            soaked = soak.close()
        rows |= {name: _row(name, runtimes[name], each) for name, each in zip(part, soaked, strict=True)}
        if not going:
            break
    if not any(row.growth is not None for row in rows.values()):
        failed = next((row.failed for row in rows.values() if row.failed), "")
        if failed:
            raise MeasurementError(failed, where=baseline.side.label)
        raise Interrupted(history_words.STOPPED)
    kept = [rows.get(name) or ReleaseRow(release=name, failed=history_words.NO_BLOCK) for name in names]
    return HistoryResult(
        side=baseline.side.record,
        statistic=STATISTIC,
        rows=(*kept, *(ReleaseRow(release=name, failed=why) for name, why in missing.items())),
        changed=changed(kept),
        findings=tuple(baseline.findings),
        notes=(*baseline.work.notes, *texts(baseline.notes)),
        session=opened.log.id,
        elapsed_s=opened.elapsed_s,
    )


def changed(rows: list[ReleaseRow]) -> tuple[str, ...]:
    """Return the releases whose growth has an interval that does not overlap the previous release's interval.

    Args:
        rows: Rows of the releases, newest first.
    """
    known = [row for row in rows if row.growth is not None]
    return tuple(new.release for new, old in pairwise(known) if _differ(new.growth, old.growth))


def _differ(new: GrowthFigure | None, old: GrowthFigure | None) -> bool:
    ends = [new and new.low, new and new.high, old and old.low, old and old.high]
    if new is None or old is None or None in ends or new.why or old.why:
        return False
    assert new.low is not None and new.high is not None and old.low is not None and old.high is not None
    return new.low > old.high or new.high < old.low


def _row(release: str, runtime: Runtime, soaked: SoakedProcess) -> ReleaseRow:
    failure: Failed | None = soaked.failure
    if failure is not None:
        return ReleaseRow(release=release, runtime=runtime, failed=failure.what)
    if not was_called(soaked):
        return ReleaseRow(release=release, runtime=runtime, failed=history_words.NO_BLOCK)
    judged = soaks.judge([as_series(soaked)], settled_call([soaked]))
    figure = growth_figure(judged, 0) if judged.growth.per_call is not None else None
    verdict = judged.verdict
    return ReleaseRow(
        release=release,
        runtime=runtime,
        growth=figure,
        memory_verdict=verdict,
        failed="" if figure is not None else history_words.FEW_CALLS,
    )
