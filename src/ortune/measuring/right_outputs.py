"""Checks outputs against a model evaluated in float64, and finds faults of the file, which are reported first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from ortune.measuring import output_check
from ortune.measuring.budget import Budget
from ortune.measuring.levels import OutputsByLevel
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide
from ortune.outputs.exact import MOST_S, ExactOutputs
from ortune.outputs.right_side import float_outputs, wrong_side
from ortune.records import DEFAULT_WRONG, FLOAT64, ExactCheck, FeedRef, Finding, LevelCheck, messages
from ortune.rules import Facts, find_rule, rule_of
from ortune.rules.measurement import non_finite_outputs, refuted_outputs, wrong_when_optimised
from ortune.search.phases import EXACT_SHARE

LEAST_S = 0.1
FILE_FAULTS = ("PRC006", "QNT012", "QNT015")
"""Codes of the rules for faults of the file, which no optimisation level can repair."""


def evaluation_limit_s(budget: Budget) -> float:
    """Return the seconds that an evaluation may take within a budget, at least ``LEAST_S``."""
    return max(LEAST_S, min(EXACT_SHARE * budget.total_s, budget.left_s))


def check_against_float64(baseline: Measuring, limit_s: float, name: str = "") -> None:
    """Compare the base's outputs with its model in float64, and add alerts if they are wrong.

    Args:
        baseline: The base, with settled inputs.
        limit_s: Maximum seconds of the evaluation; if it takes longer, a note reports the skipped check.
        name: The name of the side, if there are several.
    """
    check, side = baseline.check, baseline.side
    if not side.has_levels or check.exact is not None:
        return
    with baseline.executor.keeping_last():
        own = output_check.own_outputs(baseline)
        exact, known = exact_check(
            baseline, side, baseline.refs, check.levels, own, limit_s, check.level_check
        )
    check.exact = exact
    baseline.alerts[:] = [non_finite_outputs.with_evaluation(alert, exact) for alert in baseline.alerts]
    before = check.level_check
    if known is not None:
        said = (alert.where[0] for alert in baseline.alerts if alert.code == DEFAULT_WRONG and alert.where)
        output_check.remove_level_note(baseline)
        check.level_check = known = msgspec.structs.replace(known, node=next(said, known.node))
        # Alerts from the comparison without optimisation are replaced by those from the better reference.
        baseline.alerts[:] = [alert for alert in baseline.alerts if alert.code != DEFAULT_WRONG]
    if exact.not_evaluated and not exact.finite:
        baseline.note(messages.NotEvaluated(exact=exact, limit_s=limit_s, side=name))
    same = (
        before is not None
        and known is not None
        and (before.wrong, before.right) == (known.wrong, known.right)
    )
    findings = right_findings(baseline, side, exact, known)
    # Faults of the file come first: no level can repair them.
    said_codes = {alert.code for alert in baseline.alerts}
    faults = [fault for fault in file_faults(side) if fault.code not in said_codes] if findings else []
    baseline.alert(faults, name)
    baseline.alert(findings, name, said_before=same)


def exact_check(
    baseline: Measuring,
    side: ResolvedSide,
    refs: Sequence[FeedRef],
    levels: OutputsByLevel,
    outputs: Path,
    limit_s: float,
    before: LevelCheck | None = None,
) -> tuple[ExactCheck, LevelCheck | None]:
    """Compare the outputs of a side with its model in float64.

    Args:
        baseline: The base, whose processes run the side.
        side: The side.
        refs: The inputs of the side.
        levels: Outputs of the side by optimisation level.
        outputs: Folder of the side's outputs.
        limit_s: Maximum seconds of the evaluation.
        before: The check against the model without optimisation; None if not made.

    Returns:
        The comparison, and the level check that follows from it, or None if no level is known to be right.
    """
    baseline.line(messages.Remark(code="comparing-with-float64"))
    exact = levels.against_exact(outputs, evaluated(baseline, side, refs, limit_s), before)
    if exact.outputs is None or not (exact.right or exact.right_level):
        return exact, None
    if before is not None and before.wrong and before.right == exact.right_level:
        return exact, msgspec.structs.replace(before, reference=FLOAT64, outputs=exact.outputs)
    check = LevelCheck(
        level=levels.own,
        reference=FLOAT64,
        wrong=not exact.right,
        outputs=exact.outputs,
        right=exact.right_level or levels.own,
    )
    return exact, check


def evaluated(
    baseline: Measuring, side: ResolvedSide, refs: Sequence[FeedRef], limit_s: float
) -> ExactOutputs:
    """Return the evaluation in float64 of the model that a side runs."""
    model = side.opened()
    if model.in_ort_format:
        return ExactOutputs(why="format")
    return baseline.check.evaluations.evaluate(model.ir, model.info.sha256, refs, limit_s)


def wrong_of_two(
    baseline: Measuring, outputs: tuple[Path, Path], levels: OutputsByLevel
) -> Literal["", "A", "B", "both"]:
    """Return which of two sides with different outputs is wrong, by the base's model in float64; "" if unknown.

    Args:
        baseline: The base.
        outputs: Output folders of the base and of the other side, both with the base's names.
        levels: Outputs of the other side by optimisation level; its model is the base's.
    """
    right = evaluated(baseline, baseline.side, baseline.refs, MOST_S)
    if right.wide is None:
        return ""
    own = baseline.check.levels
    a, b = (of.against_exact(ran, right).right for of, ran in zip((own, levels), outputs, strict=True))
    if a is False and b is False:
        return "both"
    if a is False or b is False:
        return "A" if a is False else "B"
    # Both are near the reference, and may still be far from each other.
    nearer = [
        wrong_side(outputs[0] / ref.name, outputs[1] / ref.name, float_outputs(right.wide / ref.name))
        for ref in baseline.refs
    ]
    return next(filter(None, nearer), "")


def right_findings(
    baseline: Measuring, side: ResolvedSide, exact: ExactCheck, level_check: LevelCheck | None
) -> list[Finding]:
    """Return the findings about outputs that the evaluation refutes."""
    facts = replace(
        baseline.facts(), plan=side.plan, exact=exact, level_check=level_check, ort_version=side.ort_version
    )
    return [
        *rule_of(wrong_when_optimised).findings(facts),
        *rule_of(refuted_outputs).findings(facts),
    ]


def file_faults(side: ResolvedSide) -> list[Finding]:
    """Return the findings about faults of the file, which no optimisation level can repair."""
    facts = Facts(model=side.model, plan=side.plan)
    return [finding for code in FILE_FAULTS for finding in find_rule(code).findings(facts)]
