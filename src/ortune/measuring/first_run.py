"""Runs a model for the first time and checks its outputs, which precedes every measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ortune.engines.bisection.levels import clipped_activations, first_decisive, first_not_finite, made_from
from ortune.graph.failing_nodes import named_node, sources_by_name
from ortune.graph.nodes import with_operator
from ortune.inputs import feed_files
from ortune.measuring import output_check
from ortune.measuring.broken_levels import LoweredArm, find_broken_level, require_as_given, run_unoptimised
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.executor import Arm
from ortune.measuring.levels import OutputsByLevel
from ortune.measuring.measuring import Measuring
from ortune.measuring.right_outputs import exact_check, file_faults, right_findings
from ortune.measuring.sides import ResolvedSide
from ortune.outputs.exact import MOST_S
from ortune.records import (
    Failed,
    FeedRef,
    Finding,
    LevelCheck,
    Measured,
    NonFiniteOutput,
    Outcome,
    OutputDifference,
    messages,
)
from ortune.rules import rule_of
from ortune.rules.measurement import (
    broken_when_optimised,
    non_finite_outputs,
    rounded_activations,
    wrong_when_optimised,
)
from ortune.rules.quantization import clipped_activations as clipped_beyond_range
from ortune.search.phases import LEVEL_TIMES

SIDE_RUNS = 2  # at the side's own level, and without optimisation
NODE_RUNS = 4  # one saves the graph; then both with all of their values, and one with inputs that are moved


@dataclass(frozen=True)
class _Examined:
    """A side whose outputs or failure are examined, with what this may use.

    Attributes:
        baseline: The base, whose processes run the side.
        side: The side.
        refs: The inputs.
        name: The name of the side; "" if there is only one.
        budget: The budget of the command; what does not fit is skipped.
        run_ns: Time of one run, in nanoseconds.
    """

    baseline: Measuring
    side: ResolvedSide
    refs: Sequence[FeedRef]
    name: str
    budget: Budget
    run_ns: float

    def place(self, kind: str) -> Path:
        """Return the scratch folder of one kind of examination."""
        return self.baseline.scratch / f"{kind}{self.name and '-'}{self.name}"

    @property
    def short(self) -> bool:
        """Whether the budget is too short for a run of the side without optimisation."""
        return not self.budget.holds(LEVEL_TIMES, self.run_ns)

    def fits(self, kind: Literal["wrong", "non-finite"], n_runs: int) -> bool:
        """Return whether so many unoptimised runs fit in the budget; if not, note that the node is not located."""
        if self.budget.holds(LEVEL_TIMES * n_runs, self.run_ns):
            return True
        needed_s = 1e-9 * LEVEL_TIMES * n_runs * self.run_ns
        self.baseline.note(messages.NotLocated(kind=kind, side=self.name, needed_s=needed_s))
        return False


def _last_ns(baseline: Measuring) -> int:
    """Return the time of the last trial in nanoseconds; 0 if there is none."""
    last = baseline.executor.last
    return last.elapsed_ns if last is not None else 0


def find_checked_inputs(
    baseline: Measuring,
    budget: Budget,
    name: str = "",
    *,
    limit_s: float = math.inf,
) -> None:
    """Find inputs that run, and check whether the outputs are finite and right.

    Args:
        baseline: The side that is run.
        budget: The budget of the command; checks that do not fit are skipped with a note.
        name: The name of the side, if there are several.
        limit_s: Maximum seconds of a run, if less than the budget.

    Raises:
        OrtuneError: The first run failed.
    """
    baseline.find_inputs(min(limit_s, budget.total_s))
    own = _Examined(baseline, baseline.side, baseline.refs, name, budget, _last_ns(baseline))
    with baseline.executor.keeping_last():
        _check_outputs(own)


def _check_outputs(own: _Examined) -> None:
    """Check the outputs of the first run at the side's level; alerts and findings are added."""
    baseline, name = own.baseline, own.name
    if baseline.lowered is not None:
        baseline.alert(_broken_level_findings(own, baseline.lowered), name)
    baseline.line(messages.Remark(code="comparing-levels"))
    output_check.check_level(baseline, own.budget.left_ns)
    check, nonfinite = baseline.check.level_check, baseline.check.nonfinite
    if check is not None and check.wrong and not check.outputs.nonfinite_reference:
        nonfinite = ()  # the model gives finite values, so the optimiser's result is reported as wrong
    alerts = _non_finite_findings(own, nonfinite, check)
    if check is not None and check.wrong:
        alerts += _wrong_level_alerts(own, baseline.check.levels, check)
    baseline.alert(alerts, name)
    if check is not None:
        facts = replace(baseline.facts(), level_check=check)
        baseline.findings += rule_of(rounded_activations).findings(facts)
    _check_range(own)


def _check_range(examined: _Examined) -> None:
    """Add a finding if activations of a quantized side exceed their calibrated range; skipped if time is short."""
    baseline, side, name = examined.baseline, examined.side, examined.name
    quantized = side.has_levels and any(with_operator(side.model.ir, "QuantizeLinear"))
    if not quantized or examined.short:
        return
    clipped = clipped_activations(
        side, examined.refs[0], baseline.executor, examined.place("clipped"), line=examined.baseline.line
    )
    found = rule_of(clipped_beyond_range).findings(replace(baseline.facts(), clipped=clipped))
    if baseline.work.inputs_path:  # generated inputs may not be typical
        baseline.alert(found, name)
    else:
        own = side is baseline.side
        baseline.check.clipped = clipped if own else baseline.check.clipped
        baseline.findings += (
            found if own else [msgspec.structs.replace(f, what=f"{name}: {f.what}") for f in found]
        )


def check_base(baseline: Measuring, name: str, budget: Budget) -> None:
    """Check the base with and without optimisation if this was not done, because another side's outputs differ.

    The check runs whatever the budget, since it decides which side is right.

    Args:
        baseline: The base.
        name: The name of the base.
        budget: The budget of the command; if it is too short to locate the first wrong node, a note is added.
    """
    side, own = baseline.side, baseline.check
    if own.level_check is not None or not side.has_levels or side.plan.is_web:
        return
    examined = _Examined(baseline, side, baseline.refs, name, budget, _last_ns(baseline))
    baseline.line(messages.Remark(code="comparing-levels"))
    with baseline.executor.keeping_last():
        output_check.check_level(baseline)
        if own.level_check is not None and own.level_check.wrong:
            baseline.alert(_wrong_level_alerts(examined, own.levels, own.level_check), name)


def check_side(
    baseline: Measuring,
    side: ResolvedSide,
    refs: Sequence[FeedRef],
    name: str,
    budget: Budget = UNLIMITED,
    limit_s: float = MOST_S,
) -> bool:
    """Check another side against its own model; add an alert and return True if its outputs are wrong.

    This is called for a side whose outputs differ from the base's, whatever the budget. The outputs are compared with
    the model's without optimisation, and in float64.

    Args:
        baseline: The base, whose processes run the side.
        side: The side to check, whose last trial gives the cost of a run.
        refs: The inputs.
        name: The name of the side.
        budget: The budget of the command; if it is too short to locate the first wrong node, a note is added.
        limit_s: Maximum seconds of an evaluation in float64.
    """
    if not side.has_levels:
        return False
    levels = baseline.outputs_by_level(side, refs, f"levels-{name}")
    examined = _Examined(baseline, side, refs, name, budget, _last_ns(baseline))
    with baseline.executor.keeping_last():
        _check_range(examined)
    # An earlier session may have stored the result for the same model, settings, inputs and build.
    check = levels.known()
    if check is None:
        check = levels.check(None)
    if name not in baseline.check.exact_of and (ran := levels.outputs(levels.own)) is not None:
        exact, known = exact_check(baseline, side, refs, levels, ran, limit_s, check)
        baseline.check.exact_of[name], check = exact, known or check
        if exact.right is False and known is None:
            baseline.alert([*file_faults(side), *right_findings(baseline, side, exact, None)], name)
            return True
    if check is None or not check.wrong:
        baseline.alert(file_faults(side), name)
        return False
    baseline.alert(_wrong_level_alerts(examined, levels, check), name)
    return True


def at_level_that_runs(
    baseline: Measuring,
    side: ResolvedSide,
    arm: Arm,
    outcome: Outcome,
    name: str,
    budget: Budget,
    *,
    itself: bool = False,
) -> tuple[ResolvedSide, Arm]:
    """Return a side and its arm, at a lower optimisation level if ONNX Runtime's optimiser made the side fail.

    The reason is added to the alerts.

    Args:
        baseline: The base, whose processes run the side.
        side: The side.
        arm: The side with its inputs.
        outcome: The outcome of the arm.
        name: The name of the side.
        budget: The budget of the command; the origin of the failing node is found only if time is left.
        itself: Whether a model may be compared with itself.

    Raises:
        MeasurementError: The sides are now equal, or one does not run at a level that was requested for it alone.
    """
    lowered = None
    if isinstance(outcome, Failed):
        plain = run_unoptimised(baseline.executor, arm, outcome)
        if not isinstance(plain, Measured):
            return side, arm
        lowered = find_broken_level(baseline.executor, arm, outcome, plain)
        examined = _Examined(baseline, side, arm.feeds, name, budget, plain.elapsed_ns)
        baseline.alert(_broken_level_findings(examined, lowered), name)
        side, arm = replace(side, plan=lowered.plan), replace(arm, plan=lowered.plan)
    require_as_given(baseline.side, baseline.lowered, side, lowered, name, itself=itself)
    return side, arm


def locate_non_finite(
    baseline: Measuring,
    side: ResolvedSide,
    refs: Sequence[FeedRef],
    difference: OutputDifference,
    name: str,
    budget: Budget,
) -> None:
    """Add an alert that locates non-finite values in another side's outputs if the base's are finite.

    Args:
        baseline: The base, whose processes run the side.
        side: The side to check, whose last trial gives the cost of a run.
        refs: The inputs.
        difference: The difference of the side's outputs from the base's.
        name: The name of the side.
        budget: The budget of the command; if it is too short to locate the node, a note is added.
    """
    own = tuple(
        msgspec.structs.replace(
            output,
            nonfinite_reference=output.nonfinite_candidate,
            unusable_reference=output.unusable_candidate,
        )
        for output in difference.nonfinite
        if not output.unusable_reference
    )
    examined = _Examined(baseline, side, refs, name, budget, _last_ns(baseline))
    with baseline.executor.keeping_last():
        baseline.alert(_non_finite_findings(examined, own), name)


def _non_finite_findings(
    examined: _Examined, nonfinite: Sequence[NonFiniteOutput], check: LevelCheck | None = None
) -> list[Finding]:
    """Return the findings about a side's non-finite outputs, with the first node that produces them."""
    source, fed = None, None
    if nonfinite:
        fed_not_finite = ((ref, found) for ref in examined.refs if (found := _fed_not_finite(ref)))
        feed, fed = next(fed_not_finite, (examined.refs[0], None))
        if (
            examined.side.has_levels
            and any(output.unusable_reference for output in nonfinite)
            and examined.fits("non-finite", 1)
        ):
            place = examined.place("not-finite")
            source = first_not_finite(
                examined.side, feed, examined.baseline.executor, place, line=examined.baseline.line
            )
    facts = replace(
        examined.baseline.facts(),
        nonfinite=tuple(nonfinite),
        not_finite=source,
        not_finite_input=fed if source is None else None,
        level_check=check,
    )
    return rule_of(non_finite_outputs).findings(facts)


def _fed_not_finite(ref: FeedRef) -> tuple[str, int, int] | None:
    """Return (input name, number of NaN, number of infinities) for the first such input; None if all are finite."""
    for name, value in feed_files.read_feeds(Path(ref.path)).items():
        n_nan, n_inf = feed_files.not_finite(value) if isinstance(value, np.ndarray) else (0, 0)
        if n_nan or n_inf:
            return name, n_nan, n_inf
    return None


def _wrong_level_alerts(examined: _Examined, levels: OutputsByLevel, check: LevelCheck) -> list[Finding]:
    """Return the alerts about a wrong level, with the first wrong node, which is located once and stored."""
    baseline, side = examined.baseline, examined.side
    if not check.node_asked and examined.fits("wrong", NODE_RUNS):
        node = first_decisive(
            side,
            examined.refs[0],
            baseline.executor,
            examined.place("wrong"),
            custom_ops=tuple(baseline.work.custom_ops),
            seed=baseline.work.seed,
            line=examined.baseline.line,
        )
        place = "" if node is None else node.name or f"{node.value} ({node.operator})"
        check = msgspec.structs.replace(check, node=place, node_asked=True)
        levels.store(check)
    facts = replace(baseline.facts(), level_check=check, ort_version=side.ort_version)
    # Faults of the file come first: no level can repair them.
    return [*file_faults(side), *rule_of(wrong_when_optimised).findings(facts)]


def _broken_level_findings(examined: _Examined, lowered: LoweredArm) -> list[Finding]:
    """Return the findings about an optimisation level at which a side fails, with the failing node and its origin."""
    baseline, side = examined.baseline, examined.side
    broken, node = lowered.level, named_node(lowered.level.what)
    if node is not None:
        made = sources_by_name(side.model.ir, node)
        if not examined.short:
            made = made_from(
                side,
                lowered.at,
                node,
                baseline.executor,
                examined.place("broken"),
                custom_ops=tuple(baseline.work.custom_ops),
            )
        broken = msgspec.structs.replace(broken, node=node.name, made_from=made)
    facts = replace(baseline.facts(), broken_level=broken, ort_version=side.ort_version)
    return rule_of(broken_when_optimised).findings(facts)
