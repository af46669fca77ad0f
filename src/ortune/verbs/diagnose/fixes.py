"""Measures fixes that are plans: each fix is made and run once, then all fixes are compared in the same blocks."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ortune.errors import OrtuneError
from ortune.measuring import output_check
from ortune.measuring.failures import describe as failure
from ortune.measuring.fixed_blocks import AffordableArms, affordable_arms, needed_s, race
from ortune.measuring.limits import patience_s
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.rewriting import ModelVariants
from ortune.objectives import Objective
from ortune.records import Block, Comparison, Control, Failed, Finding, OutputDifference, Plan
from ortune.search import confirm
from ortune.search.blocks import measured
from ortune.search.figures import STATISTICS, describe
from ortune.search.plan_edits import combined, merge
from ortune.show import finding_words
from ortune.verbs._shared.other_programs import with_others
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import TriedFix

TOGETHER = "together"
"""Name of the arm with all fixes at once."""
MOST_FIXES = 8
"""Maximum number of fixes that are compared; the least important findings are left out."""


@dataclass
class Fix:
    """A change that fixes findings, and its outcome.

    Attributes:
        arm: Name of the fix in the blocks.
        plan: The side's plan with the change.
        change: The change alone.
        codes: Codes of the findings that the change fixes.
        outputs: Difference between the changed and the unchanged model's outputs; None before the fix ran.
        failed: Why the fix cannot be compared; "" if it can.
    """

    arm: str
    plan: Plan
    change: Plan
    codes: list[str] = field(default_factory=list)
    outputs: OutputDifference | None = None
    failed: str = ""


class Fixes:
    """The fixes of a diagnosis: ``gather`` collects them from findings, and ``measure`` runs and compares them.

    Attributes:
        fixes: One fix per plan, followed by all fixes together once they were tried.
        not_tried: Codes of findings whose fix is in a safety class that was not allowed.
        blocks, controls, statistic: Data of the comparison; empty if nothing was compared.
        enough_s: Budget in seconds that is enough for the fixes left out; 0 if none was left out.
        checks_s: Seconds for skipped checks, which ``enough_s`` includes.
    """

    def __init__(self, opened: Experiment, baseline: Measuring, objective: Objective, seed: int) -> None:
        self.experiment, self.baseline, self.objective = opened, baseline, objective
        self.watch, self.budget = opened.watch, opened.budget.reserve(opened.answer_s)
        custom_ops = tuple(baseline.options.custom_ops)
        self.models = ModelVariants(baseline.side, baseline.scratch, custom_ops, self.watch.line)
        self.rng = random.Random(f"diagnose-{seed}")
        self.fixes: list[Fix] = []
        self.not_tried: list[str] = []
        self.blocks: list[Block] = []
        self.controls: list[Control] = []
        self.statistic = ""
        self.enough_s = 0
        self.checks_s = 0.0
        self._no_time = ""  # why not all were raced

    @property
    def sound(self) -> list[Fix]:
        """Fixes that can be compared: they run, and their outputs match the unchanged model's."""
        return [fix for fix in self.fixes if not fix.failed]

    def gather(self, findings: Sequence[Finding], allowed: Collection[str]) -> None:
        """Collect the plans of findings, without duplicates.

        Args:
            findings: Findings, the most important first.
            allowed: Safety classes of fixes that are measured.
        """
        side, fixes = self.baseline.side, {fix.plan.id: fix for fix in self.fixes}
        for finding in findings:
            if finding.plan is None:
                continue
            if finding.safety not in allowed:
                self.not_tried.append(finding.code)
                continue
            plan = merge(side.plan, finding.plan)
            if plan.id in fixes or len(fixes) < MOST_FIXES:
                new = Fix(arm=f"fix-{len(fixes) + 1}", plan=plan, change=finding.plan)
                fixes.setdefault(plan.id, new).codes.append(finding.code)
        self.fixes = list(fixes.values())

    def measure(self) -> None:
        """Run and compare the fixes that fit in the budget; nothing is run if there is no time for a comparison."""
        if not self.baseline.check.claims:
            self._no_time = finding_words.NO_CLAIMS
        elif self.baseline.functional_only:  # on an emulated GPU, outputs are meaningful but times are not
            self._no_time = diagnose_words.NOT_TIMED
            for fix in self.fixes:
                self._try(fix)
        # Asked before anything is made or run: a fix that cannot be raced is not worth a process.
        elif self.fixes and not self._within_budget([fix.arm for fix in self.fixes]).arms:
            self.watch.say(diagnose_words.not_raced(len(self.fixes), len(self.fixes), self._no_time))
        elif self.fixes:
            for fix in self.fixes:
                self._try(fix)
            everything = self._together(self.sound)
            if everything is not None:
                self._try(everything)
                self.fixes.append(everything)
            self._race([fix.arm for fix in self.sound])

    def _together(self, fixes: Sequence[Fix]) -> Fix | None:
        """Return a fix that combines all fixes; None if they conflict or there are fewer than two."""
        if len(fixes) < 2:
            return None
        change = combined([fix.change for fix in fixes], Plan())
        if change is None:
            self.watch.say(diagnose_words.CONFLICT)
            return None
        codes = [code for fix in fixes for code in fix.codes]
        return Fix(arm=TOGETHER, plan=merge(self.baseline.side.plan, change), change=change, codes=codes)

    def _try(self, fix: Fix) -> None:
        """Make the changed model and run it once, to check that it runs and that its outputs match."""
        baseline = self.baseline
        self.watch.line(diagnose_words.testing(fix.codes))
        try:
            limit_s = patience_s(baseline.pilot.trial_ns, max(0.0, self.budget.left_ns))
            model = self.models.path(fix.plan, limit_s) if fix.plan.rewrites else None
        except OrtuneError as error:
            fix.failed = diagnose_words.not_made(error.what)
            return
        arm = baseline.arm(fix.arm, plan=fix.plan, model=model)
        outcome = baseline.executor.trial(arm, runs=baseline.pilot.look_runs, keep_outputs=True)
        if isinstance(outcome, Failed):
            fix.failed = diagnose_words.does_not_run(failure(outcome))
            return
        baseline.limit_alive(outcome)
        fix.outputs = output_check.difference(baseline, outcome, key=fix.arm, again=arm)
        if not fix.outputs.ok:
            fix.failed = diagnose_words.moves_outputs(fix.outputs.what)
            return
        baseline.executor.arms = {**baseline.executor.arms, fix.arm: arm}

    def _within_budget(self, arms: Sequence[str]) -> AffordableArms:
        """Return the arms that fit in the budget; the fixes with the smallest expected gain are dropped first."""

        def drop(kept: list[str]) -> None:
            alone = [arm for arm in kept if arm != TOGETHER]
            # Single fixes are dropped first, beginning with the last, which is worth least. The arm with all fixes
            # remains next to one of them, as a user who applies everything gets it; in the end only the first fix
            # remains.
            kept.remove(alone[-1] if len(alone) > 1 else kept[-1])

        within = affordable_arms(self.baseline, arms, self.budget, drop)
        self._no_time, self.enough_s = "", 0
        if not within.all_of(arms):
            self._needs(within.needed_s)
        return within

    def _needs(self, needed_s: float) -> None:
        """Set the reason why not all fixes were compared, and a budget that is enough for fixes and skipped checks."""
        needed_s += self.checks_s
        self._no_time = diagnose_words.no_time(needed_s)
        self.enough_s = self.budget.enough_s(needed_s)

    def _race(self, wanted: Sequence[str]) -> None:
        baseline, executor = self.baseline, self.baseline.executor
        within = self._within_budget(wanted)
        if len(within.arms) < len(wanted):
            left_out = len(wanted) - len(within.arms)
            self.watch.say(diagnose_words.not_raced(left_out, len(wanted), self._no_time))
        if not within.arms:
            return
        executor.arms = {**baseline.controls(), **{arm: executor.arms[arm] for arm in within.arms}}
        began_s = self.budget.spent_s
        schedule = race(
            baseline,
            within,
            self.watch,
            self.experiment.replay,
            fixed=STATISTICS[self.objective],
            rng=self.rng,
            budget=self.budget,
        )
        assert schedule.judgement is not None
        self.statistic, self.blocks = schedule.judgement.statistic, schedule.blocks
        self.controls = schedule.controls
        if within.controlled and not (self.blocks and self.controls) and not self.watch.stop():
            self._needs(needed_s(schedule, self.budget, began_s))
        if not self.blocks and not self.watch.stop():
            self.watch.say(diagnose_words.not_raced(len(wanted), len(wanted), self._no_time))

    def results(self) -> list[tuple[Fix, TriedFix]]:
        """Return pairs of a fix and its result, without the result's command.

        The intervals are corrected for the number of fixes, so that one error rate holds for all fixes together.
        """
        level = 1 - 0.05 / max(1, len(self.sound))
        return [(fix, self._result(fix, level)) for fix in self.fixes]

    def _result(self, fix: Fix, level: float) -> TriedFix:
        trials = [] if fix.failed else measured(self.blocks, fix.arm)
        comparison: Comparison | None = None
        if trials:
            controlled = bool(self.controls)
            # As many claims as fixes that could be raced: Bonferroni's share of the error for each.
            comparison = self._compared(fix, level, controlled=controlled)
        return TriedFix(
            codes=tuple(fix.codes),
            plan=fix.change,
            figures=describe(trials, self.statistic) if trials else None,
            outputs=fix.outputs,
            comparison=comparison,
            failed=fix.failed or ("" if comparison else self._no_time or diagnose_words.STOPPED),
        )

    def _compared(self, fix: Fix, level: float, *, controlled: bool) -> Comparison | None:
        def compare(blocks: Sequence[Block], statistic: str) -> Comparison | None:
            return confirm.compare(blocks, fix.arm, statistic, level=level, controlled=controlled)

        comparison, baseline = compare(self.blocks, self.statistic), self.baseline
        plans = fix.plan, baseline.side.plan
        return comparison and with_others(
            comparison, self.blocks, self.statistic, baseline.host, compare, plans, arm=fix.arm
        )
