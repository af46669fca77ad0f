"""The first run of a model, and what is asked of its outputs before anything is timed: of every verb the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ortune.bisection.levels import first_decisive, first_not_finite
from ortune.records import DEFAULT_WRONG, Envelope, FeedRef, Finding, LevelCheck, Record
from ortune.report import finding_words
from ortune.rules import Facts, rule_of
from ortune.rules.measurement import outputs_not_finite, wrong_when_optimised
from ortune.trials.baseline import Baseline
from ortune.trials.levels import Levels
from ortune.trials.sides import Resolved

R = TypeVar("R", bound=Record)


def settle(
    baseline: Baseline,
    limit_s: float,
    left_s: Callable[[], float] = lambda: math.inf,
    line: Callable[[str], None] = lambda text: None,
    name: str = "",
) -> None:
    """Finds inputs that run, and asks first of all whether the outputs are numbers, and right.

    Args:
        baseline: The side that is run.
        limit_s: For a run, as ``Baseline.settle`` takes it.
        left_s: Of the budget: what does not fit is left out with a note.
        line: Is told how far it is.
        name: Of the side, where there are several.

    Raises:
        OrtuneError: As the first run fails.
    """
    baseline.settle(limit_s)
    first = baseline.executor.last
    line("comparing the outputs with those without optimisation")
    baseline.question_outputs(left_s() * 1e9)
    side, source = baseline.side, None
    check, nonfinite = baseline.level_check, baseline.nonfinite
    if check is not None and check.wrong and not check.outputs.nonfinite_reference:
        nonfinite = ()  # the model gives numbers: what the optimiser makes of them is told as wrong
    if any(output.unusable_reference for output in nonfinite):
        place = baseline.scratch / "not-finite"
        source = first_not_finite(side, baseline.refs[0], baseline.executor, place, line=line)
    facts = Facts(work=baseline.work, nonfinite=nonfinite, not_finite=source)
    alerts = rule_of(outputs_not_finite).findings(facts)
    if check is not None and check.wrong:
        alerts += _wrong(baseline, side, baseline.refs, baseline.levels, check, line, name)
    _alert(baseline, alerts, name)
    baseline.executor.last = first  # what a run costs is told from it


def alerted(envelope: Envelope[R], *baselines: Baseline) -> Envelope[R]:
    """The document with what is said before all else, and the status that says so."""
    alerts = tuple(alert for baseline in baselines for alert in baseline.alerts)
    wrong = any(alert.code == DEFAULT_WRONG for alert in alerts) and envelope.status == "ok"
    return msgspec.structs.replace(
        envelope, status="default-wrong" if wrong else envelope.status, alerts=alerts
    )


def question_side(
    baseline: Baseline, side: Resolved, refs: Sequence[FeedRef], line: Callable[[str], None], name: str
) -> bool:
    """Whether the optimiser makes the outputs of another side wrong; adds that to the alerts.

    Args:
        baseline: Whose processes run it.
        side: What is held against the baseline.
        refs: What it is fed.
        line: Is told how far it is.
        name: Of the side.
    """
    if side.plan.is_web:
        return False
    folder = baseline.scratch / f"levels-{name}"
    levels = Levels(side, refs, baseline.executor, baseline.work, folder)
    check = levels.known(baseline.host, baseline.log.folder)
    check = check or levels.check(None, baseline.host, baseline.log.folder)
    if check is None or not check.wrong:
        return False
    _alert(baseline, _wrong(baseline, side, refs, levels, check, line, name), name)
    return True


def _wrong(
    baseline: Baseline,
    side: Resolved,
    refs: Sequence[FeedRef],
    levels: Levels,
    check: LevelCheck,
    line: Callable[[str], None],
    name: str,
) -> list[Finding]:
    """What is said of a wrong level, with the node from which on it is, which is asked once and kept."""
    if not check.node_asked:
        node = first_decisive(
            side,
            refs[0],
            baseline.executor,
            baseline.scratch / f"wrong-{name}",
            custom_ops=tuple(baseline.work.custom_ops),
            seed=baseline.work.seed,
            line=line,
        )
        place = "" if node is None else node.name or f"{node.value} ({node.operator})"
        check = msgspec.structs.replace(check, node=place, node_asked=True)
        levels.keep(check, baseline.host, baseline.log.folder)
    version = side.runtime_of(side.plan).version_of(side.plan)
    return rule_of(wrong_when_optimised).findings(Facts(level_check=check, ort_version=version))


def _alert(baseline: Baseline, alerts: Sequence[Finding], name: str) -> None:
    for alert in alerts:
        told = msgspec.structs.replace(alert, what=f"{name}: {alert.what}") if name else alert
        baseline.alerts.append(told)
        baseline.say(finding_words.sentence(told, evidence=False))
