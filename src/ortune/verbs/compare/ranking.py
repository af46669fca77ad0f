"""The result of a comparison: the outcome of each side compared with the base, fastest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ortune import rewrites
from ortune.errors import MeasurementError
from ortune.measuring.executor import Arm
from ortune.measuring.sides import ResolvedSide
from ortune.objectives import Objective
from ortune.records import (
    Block,
    Comparison,
    ExactCheck,
    Failed,
    Figures,
    Gate,
    Host,
    Measured,
    OutputDifference,
    Plan,
    Workload,
)
from ortune.search import duel
from ortune.search.blocks import LETTERS, failures, measured
from ortune.search.figures import describe
from ortune.search.guards import case_results, guards, other_changes
from ortune.show import sides
from ortune.verbs._shared.other_programs import with_others
from ortune.verbs.compare.result import ComparedSide


@dataclass(slots=True, kw_only=True)
class Contender:
    """A side compared with the base, and its outcome.

    Attributes:
        arm: Name of the side's arm in the blocks.
        pairs: Maps each input of the side to the paired input of A.
        contestant: The arm to run; None before the side's inputs are written.
        trials: Separate trials that give the side's start times; the first also gives its outputs.
        difference: Difference between the side's outputs and the base's; None if the side does not run.
        wrong: Whether ONNX Runtime's optimiser makes the side's outputs wrong.
        failed: The side's failure; None if the side runs.
        first_load_ns: Time of the load that wrote a setting's cache to disk; None without such a cache.
    """

    arm: str
    side: ResolvedSide
    pairs: dict[str, str] = field(default_factory=dict)
    contestant: Arm | None = None
    trials: list[Measured] = field(default_factory=list)
    difference: OutputDifference | None = None
    wrong: bool = False
    exact: ExactCheck | None = None
    failed: Failed | None = None
    first_load_ns: float | None = None

    @property
    def name(self) -> str:
        """Letter of the side."""
        return LETTERS[self.arm]

    def rewritten_exactly(self, base: ResolvedSide) -> bool:
        """Return whether the side differs from the base only by exact rewrites."""
        plan = self.side.plan
        added = plan.rewrites[len(base.plan.rewrites) :]
        same = msgspec.structs.replace(plan, rewrites=base.plan.rewrites).id == base.plan.id
        exact = all(rewrites.find(spec.name).safety == "exact" for spec in added)
        return bool(added) and same and exact and base.model.ref.sha256 == self.side.model.ref.sha256

    @property
    def comparable(self) -> bool:
        """Whether the side's times can be compared with those of the base."""
        return self.difference is not None and (self.difference.comparable or self.wrong)


def wrong_sides(news: Sequence[Contender], *, base_wrong: bool, allow_nonfinite: bool) -> Iterator[str]:
    """Yield the names of sides whose outputs are wrong or not finite, about which no claim is made.

    Args:
        news: The sides compared with the base.
        base_wrong: Whether the base's outputs are already known to be wrong.
        allow_nonfinite: Whether NaN and infinities are accepted.
    """
    differences = [new.difference for new in news if new.difference is not None]
    if base_wrong or (
        not allow_nonfinite and any(difference.nonfinite_reference for difference in differences)
    ):
        yield "A"
    for new in news:
        if new.difference is None:
            continue
        if new.wrong or (new.difference.nonfinite_candidate and not allow_nonfinite):
            yield new.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSides:
    """Measurements of a comparison from which its result is made.

    Attributes:
        counts_as: Outcome of a gate that could not decide.
        base: The plan (settings) of the base.
        host: The machine.
        state: State of the timed blocks; None if no side could be timed.
    """

    work: Workload
    objective: Objective
    rules: duel.Rules
    counts_as: Literal["pass", "fail"]
    base: Plan
    host: Host
    state: duel.Duel | None

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, including those that were dropped from the statistics."""
        return self.state.blocks if self.state else ()


def rank(raced: MeasuredSides, news: Sequence[Contender], base_figures: Figures | None) -> list[ComparedSide]:
    """Return the new sides, fastest first, followed by sides that cannot be compared and sides that do not run.

    Args:
        raced: The measurements.
        news: The new sides.
        base_figures: Statistics of the base; None if no side was timed.

    Raises:
        MeasurementError: All sides that could be timed failed repeatedly.
    """
    comparisons: dict[str, Comparison] = {}
    if raced.state is not None:
        if raced.state.ended == "failed":
            raise _failed(raced.state, news)
        comparisons = raced.state.conclude_all()
    compared = [_compared_side(raced, new, comparisons.get(new.arm), base_figures) for new in news]
    return sorted(
        compared, key=lambda s: (s.outputs is None, s.comparison.ratio if s.comparison else float("inf"))
    )


def _failed(state: duel.Duel, news: Sequence[Contender]) -> MeasurementError:
    arm, failed = next(iter(state.failed.items()))
    new = next(side for side in news if side.arm == arm)
    what = f"{new.name} failed repeatedly: {failed.what}"
    return MeasurementError(what, where=new.side.label, code=failed.reason)


def _compared_side(
    raced: MeasuredSides, new: Contender, comparison: Comparison | None, base_figures: Figures | None
) -> ComparedSide:
    state, blocks = raced.state, raced.blocks
    trials = measured(blocks, new.arm)
    statistic, scale = (state.statistic, state.prior_scale) if state else ("median", None)
    figures = describe(trials, statistic, new.trials, new.first_load_ns) if trials else None
    if comparison is None or state is None or new.arm in state.failed:
        comparison = None
    else:
        comparison = msgspec.structs.replace(
            sides.with_values(_judged(raced, state, new, comparison), base_figures, figures),
            guards=guards(blocks, raced.objective, arm=new.arm),
            beside=other_changes(blocks, statistic, arm=new.arm),
        )
    return ComparedSide(
        name=new.name,
        side=new.side.placed_record(trials),
        comparison=comparison,
        outputs=new.difference,
        figures=figures,
        exact=new.exact,
        cases=case_results(blocks, raced.work, statistic, scale, arm=new.arm) if comparison else (),
        read_back=trials[-1].done.read_back if trials else (),
        mapped_inputs={a: b for b, a in new.pairs.items()},
        failures=(*failures(blocks, new.arm), *([new.failed] if new.failed else [])),
        gate=_gate(raced, new, comparison),
    )


def _judged(raced: MeasuredSides, state: duel.Duel, new: Contender, comparison: Comparison) -> Comparison:
    """Return the comparison with a record of the other programs that may explain the difference."""

    def again(blocks: Sequence[Block], statistic: str) -> Comparison | None:
        return state.of_blocks(blocks, statistic, arm=new.arm, alpha=1 - comparison.level)

    plans = new.side.plan, raced.base
    return with_others(comparison, raced.blocks, state.statistic, raced.host, again, plans, arm=new.arm)


def _gate(raced: MeasuredSides, new: Contender, comparison: Comparison | None) -> Gate | None:
    """Return the gate's result; None without a gate.

    A side that does not run or whose outputs exceed the tolerance fails the gate. A difference that other programs may
    explain leaves the gate undecided.
    """
    limit, state = raced.rules.threshold_ratio, raced.state
    if limit is None:
        return None
    gate = Gate(threshold_ratio=limit, answer="fail", undecided_counts_as=raced.counts_as)
    if state is None or new.arm not in state.arms or new.arm in state.failed:
        return gate
    gate = state.gate(raced.counts_as, arm=new.arm)
    seen = comparison.smallest_effect_ratio if comparison is not None else None
    if state.ended in ("blocks", "budget") and gate.provable_ratio is not None and seen is not None:
        # All blocks were measured, so their smallest provable effect counts: outliers widen an interval.
        gate = msgspec.structs.replace(gate, provable_ratio=max(gate.provable_ratio, seen))
    if new.difference is None or not new.difference.ok:
        # Outputs outside the tolerance fail the gate at any speed.
        return msgspec.structs.replace(gate, answer="fail", reason="")
    if comparison is not None and _may_be_load(gate, comparison):
        return msgspec.structs.replace(gate, answer="undecided", reason="other-programs")
    return gate


def _may_be_load(gate: Gate, comparison: Comparison) -> bool:
    """Return whether other programs may have caused a gate's result.

    If other programs made A slower, they may hide a regression of B. If they made B slower and B still passes, the
    result holds without them. A regression that only the CPU time per run confirms fails the gate if the interval of
    the CPU time lies beyond the threshold as well.
    """
    others = comparison.others
    if others is None or gate.answer not in ("pass", "fail"):
        return False
    if others.explains:
        return gate.answer == "fail" or comparison.verdict == "faster"
    if others.cpu_time is not None and gate.answer == "fail":
        return others.cpu_time.ratio_low <= 1 + gate.threshold_ratio
    return others.hides and others.favours
