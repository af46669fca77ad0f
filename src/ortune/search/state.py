"""The results of a search so far, and comparisons of its plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ortune.records import (
    Block,
    Comparison,
    Control,
    Host,
    Measured,
    OutputDifference,
    Plan,
    VerdictName,
)
from ortune.search import confirm, trial_counts
from ortune.search.blocks import BASE
from ortune.search.controls import Judgement
from ortune.search.guards import broken_guard, guards, other_changes
from ortune.search.halving import CURRENT, Entry, Halving
from ortune.search.loss import WORTH_LOSS, is_lossy
from ortune.search.plan_edits import is_exact
from ortune.search.refine import PAYS, Costs, ablate, combine, screen_rest, try_neighbours
from ortune.search.schedule import Steps
from ortune.search.waiting import differ_in_threads, with_other_programs
from ortune.stats import detect, intervals, pairs

ERROR, BLIND_ERROR = 0.05, 0.01
"""Error rate of the confirmation (one minus its confidence level), and error rate if the sensitivity check failed.

The plan to confirm is the plan that looked best, which on a noisy machine is mostly luck: at load 6, a decision tree
with a latency of 35 us was "1.14x (1.01-1.33) faster" without the memory pattern, and not faster without other
programs."""


@dataclass(slots=True, kw_only=True)
class Search:
    """A running search.

    Attributes:
        race: All plans with their blocks; ``calibration`` and ``confirmation`` are the blocks before and after.
        default: Plan with which all plans are compared.
        required: Parts that the user requires in every plan.
        current: The user's current plan, which is in every block if ``race.with_current``.
        judgement: Result of the calibration; not set before it.
        ablation: Cost of leaving out each setting or rewrite, as log ratios by name.
        default_worsens: Text about the guard that the default breaks relative to the current plan; "" if none.
        winner: The plan to confirm; ``others`` are further plans in the same blocks, each of which is a separate claim.
        alone: Blocks of the last check, with one process at a time; ``starts`` are trials of the winner if there was no
            time for these blocks.
        host: The machine; None if the load by other programs is unknown.
        packages: Execution providers for which another build of ONNX Runtime than the user's would be installed; empty
            if all plans may win equally.
        worth_adopting: Smallest gain over the best other plan that justifies such a build, as a fraction.
    """

    race: Halving
    default: Plan
    current: Plan | None
    required: Plan = field(default_factory=Plan)
    judgement: Judgement = field(init=False)
    calibration: list[Block] = field(default_factory=list)
    confirmation: list[Block] = field(default_factory=list)
    alone: list[Block] = field(default_factory=list)
    starts: list[Measured] = field(default_factory=list)
    ablation: dict[str, Costs] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    default_worsens: str = ""
    winner: Entry | None = None
    others: list[Entry] = field(default_factory=list)
    host: Host | None = None
    packages: frozenset[str] = frozenset()
    worth_adopting: float = 0.0

    @property
    def blocks(self) -> list[Block]:
        """All blocks in which processes took turns, in order."""
        return [*self.calibration, *self.race.blocks, *self.confirmation]

    @property
    def base(self) -> str:
        """The arm that a winner would replace."""
        return CURRENT if self.race.with_current else BASE

    def is_lossy(self, plan: Plan, outputs: OutputDifference | None) -> bool:
        """Return whether outputs differ from those of the plan that runs now by more than rounding; see ``loss``."""
        return is_lossy(plan, outputs, self.required, self.current or self.default)

    def is_passed_over(self, entry: Entry) -> bool:
        """Return whether a plan looked faster than the winner, but not by as much as justifies its loss."""
        winner = self.winner
        return (
            winner is not None
            and entry.median_log_ratio < winner.median_log_ratio
            and self.is_lossy(entry.plan, entry.outputs)
            and not self.is_lossy(winner.plan, winner.outputs)
        )

    def compare_with(self, default: Plan, current: Plan | None) -> None:
        """Replace the default, with which all plans are compared, and the current plan."""
        self.default = self.race.default = default
        self.current, self.race.with_current = current, current not in (None, default)

    def screen(self, waiting: Sequence[Entry], *, followed: bool = True) -> Steps[None]:
        """Yield the first blocks of all plans, and of waiting plans that fit; ``followed`` is as in ``screen_rest``."""
        yield from self.race.screen(list(self.race.entries.values()))
        yield from screen_rest(self.race, waiting, followed=followed)

    def rank(self, n_blocks: int) -> Steps[None]:
        """Yield ``n_blocks`` blocks of every plan unless time runs out; only failing plans are removed."""
        while waiting := [entry for entry in self.race.live() if len(entry.ratios) < n_blocks]:
            if not (yield from self.race.round(waiting)):
                return

    def find_winner(self, waiting: Sequence[Entry], cpus: int) -> Steps[None]:
        """Yield the blocks that screen and combine plans, try neighbouring numbers, and remove useless parts."""
        race = self.race
        yield from self.screen(waiting)
        leader = self.leader()
        if leader is not None:
            leader = yield from combine(race, leader, self.required)
            leader = yield from try_neighbours(race, leader, self.required, cpus)
        self.winner = leader if leader is not None and leader.live else self.leader()
        if self.winner is not None:
            self.winner, self.ablation = yield from ablate(race, self.winner, self.required)

    def needs_package(self, plan: Plan) -> bool:
        """Return whether a plan needs another build of ONNX Runtime than the user's."""
        return not self.packages.isdisjoint(plan.provider_names)

    def ranked(self) -> list[Entry]:
        """Return the plans that have enough blocks and may be confirmed, fastest first."""
        enough = [e for e in self.race.live() if len(e.ratios) >= trial_counts.ROUNDS[0]]
        return [e for e in enough if not self.race.eliminate_by_guards(e)]

    def leader(self) -> Entry | None:
        """Return the plan to confirm among the plans with enough blocks; None if there is none."""
        return self.leading(self.ranked())

    def leading(self, ranked: Sequence[Entry]) -> Entry | None:
        """Return the plan to extend: the fastest plan, or the fastest plan without another package if it is close.

        The default also needs no other package, so a plan without a gain over the default does not count.

        Args:
            ranked: Plans with enough blocks that may be confirmed, fastest first.
        """
        fastest = preferred(ranked, self.is_lossy)
        if fastest is None or not self.needs_package(fastest.plan):
            return fastest
        own = next((entry for entry in ranked if not self.needs_package(entry.plan)), None)
        if own is None or own.median_log_ratio >= -PAYS * np.log1p(self.race.worth):
            return fastest
        return (
            fastest
            if fastest.median_log_ratio - own.median_log_ratio <= np.log1p(-self.worth_adopting)
            else own
        )

    def consider_default(self) -> None:
        """Make the unchanged default the winner if the user runs another plan and no plan beats the default."""
        race = self.race
        if self.winner is not None and self.winner.median_log_ratio < -PAYS * np.log1p(race.worth):
            return
        self.default_worsens = broken_guard(
            race.all_blocks, race.objective, race.allowed, arm=BASE, base=CURRENT
        )
        if not self.default_worsens:
            self.winner = race.add(Entry(plan=self.default, origin="the untouched default"))

    @property
    def error(self) -> float:
        """Error rate of the confirmation for all claims together."""
        return BLIND_ERROR if self.judgement.blind else ERROR

    def blocks_to_confirm(self) -> int:
        """Return the number of blocks that can confirm half of the winner's gain in the race, within the limits."""
        assert self.winner is not None
        effect = max(abs(float(np.expm1(self.winner.median_log_ratio))), self.race.worth) / 2
        needed = detect.blocks_needed(
            self.judgement.scale, effect, self.error, method="wilcoxon", most=trial_counts.MOST_CONFIRM
        )
        return max(trial_counts.LEAST_CONFIRM, needed or trial_counts.MOST_CONFIRM)

    def comparison(self, arm: str, base: str = BASE) -> Comparison | None:
        """Return the confirmed comparison of an arm, with its guards; None if there is none."""
        statistic, worth = self.judgement.statistic, self.race.worth
        # The comparisons with the default, with the current plan and of each other plan are separate claims,
        # which share the error rate (Holm's first step).
        level = 1 - self.error / (self.race.references + len(self.others))

        def compare(blocks: Sequence[Block], figure: str) -> Comparison | None:
            return confirm.compare(blocks, arm, figure, base=base, level=level, delta=worth)

        comparison = compare(self.confirmation, statistic)
        if comparison is None:
            return None
        if self.host is not None:
            threads = differ_in_threads(self._plan(arm), self._plan(base))
            comparison = with_other_programs(
                comparison,
                self.confirmation,
                statistic,
                self.host,
                compare,
                arm=arm,
                base=base,
                favours=threads,
            )
        against = guards(self.confirmation, self.race.objective, arm=arm, base=base)
        also = other_changes(
            self.confirmation, self.judgement.statistic, arm=arm, base=base, alone=self.alone
        )
        return msgspec.structs.replace(comparison, guards=against, beside=also)

    def _plan(self, arm: str) -> Plan:
        if arm == BASE:
            return self.default
        if arm == CURRENT:
            return self.current or self.default
        known = [*self.race.entries.values(), *self.others, *([self.winner] if self.winner else [])]
        return next((entry.plan for entry in known if entry.arm == arm), self.default)

    def race_comparison(self, arm: str) -> Comparison | None:
        """Return the comparison of an arm in the race's blocks, which is not a claim; None without blocks."""
        comparison = confirm.compare(self.race.all_blocks, arm, self.judgement.statistic, controlled=False)
        return comparison and msgspec.structs.replace(comparison, phase="race")

    def comparison_alone(self) -> Comparison | None:
        """Return the comparison of the winner with the base in the last check; None if it did not run."""
        if self.winner is None or not self.alone:
            return None
        statistic, worth = self.judgement.statistic, self.race.worth
        return confirm.compare(self.alone, self.winner.arm, statistic, base=self.base, delta=worth)

    def verdict(self, *, changes: bool) -> VerdictName:
        """Return the verdict of the deciding comparison; "inconclusive" if there is no winner to ship."""
        comparison = self.comparison(self.winner.arm, self.base) if self.winner else None
        # Faster but not shipped: a guard failed, or the gain is less than what justifies a change.
        if comparison is None or (comparison.verdict == "faster" and not changes):
            return "inconclusive"
        return comparison.verdict

    def smallest_effect_ratio(self) -> float | None:
        """Return the smallest effect that the race's blocks can detect; None with fewer than six blocks."""
        raced = (e.ratios for e in self.race.entries.values() if e is not self.race.timed_only)
        ratios: list[float] = max(raced, key=len, default=[])
        if len(ratios) < 6:
            return None
        scale = intervals.robust_scale(np.asarray(ratios))
        effect = detect.smallest_effect(scale, len(ratios), method="wilcoxon")
        return effect if np.isfinite(effect) else None


def preferred(
    ranked: Sequence[Entry], lossy: Callable[[Plan, OutputDifference | None], bool]
) -> Entry | None:
    """Return the fastest plan, or the fastest exact plan if the fastest plan is inexact and not clearly faster.

    A text detector ran 34 % faster quantized and 29 % faster with exact rewrites, which two blocks cannot distinguish;
    confirmed, it was 25 %.

    Args:
        ranked: Plans, fastest first.
        lossy: Returns whether a plan with this difference of outputs must gain enough over the exact plan to justify
            a loss.
    """
    fastest = next(iter(ranked), None)
    exact = next((e for e in ranked if is_exact(e.plan)), None)
    if fastest is None or exact is None or fastest is exact:
        return fastest
    ratios = np.asarray(fastest.ratios)
    slowest = np.log(pairs.wilcoxon_interval(ratios).ratio_high)
    # With too few blocks for an interval, use the slowest of all.
    slowest = slowest if np.isfinite(slowest) else ratios.max()
    least = np.log1p(-WORTH_LOSS) if lossy(fastest.plan, fastest.outputs) else 0.0
    return fastest if slowest < exact.median_log_ratio + least else exact
