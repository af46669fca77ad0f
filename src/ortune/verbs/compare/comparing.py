"""Runs a comparison on real trials: new sides against one base, within the budget."""

from __future__ import annotations

import math
import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from ortune import monotonic, targets
from ortune.errors import MeasurementError
from ortune.inputs.vocabulary import rows_of, within_rows
from ortune.measuring.base_checks import alert_dependent_rows_of
from ortune.measuring.driver import drive
from ortune.measuring.executor import Arm
from ortune.measuring.failures import describe as failure
from ortune.measuring.first_run import (
    SIDE_RUNS,
    at_level_that_runs,
    find_checked_inputs,
)
from ortune.measuring.measuring import STARTS
from ortune.measuring.opening import Experiment
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.run_pilot import require_page, run_pilot
from ortune.measuring.sides import ResolvedSide, require_unchanged
from ortune.objectives import Objective
from ortune.outputs import pairing
from ortune.records import Block, Failed, Measured, Outcome, Workload
from ortune.records.messages import FirstRun
from ortune.rules import rule_of
from ortune.rules.measurement import emulated_device
from ortune.search import controls, duel
from ortune.search.blocks import BASE, LETTERS, NEW, measured
from ortune.search.phases import AFTER_SHARE, LEAST_PATIENCE_S, PROFILED_TRIALS
from ortune.search.sequential import Sequential
from ortune.show import finding_words
from ortune.show import side_rows as compare_rows
from ortune.show.output_words import outputs_against
from ortune.show.placement_words import in_browser
from ortune.stats import evidence
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs.compare import source_words
from ortune.verbs.compare import words as compare_words
from ortune.verbs.compare.judging import judge
from ortune.verbs.compare.ranking import Contender


class Comparing:
    """A running comparison: call ``begin``, then ``race`` if ``timed`` is not empty.

    Attributes:
        news: The sides compared with the base, and their outcomes.
        rules: Thresholds and limits of the decision.
        state: State of the timed blocks; None if no side was timed.
        starts: Separate trials of the base that give its start times.
        budget: The budget of the blocks, after reserving time for the later steps.
    """

    def __init__(
        self,
        opened: Experiment,
        a: ResolvedSide,
        news: list[Contender],
        rules: duel.Rules,
        *,
        objective: Objective,
        seed: int,
        wait_ratio: float,
        tells_why: bool,
    ) -> None:
        """Prepare a comparison; nothing runs yet.

        Args:
            opened: The open experiment.
            a: The base.
            news: The other sides, with their inputs paired to the inputs of the base.
            rules: Thresholds and limits of the decision.
            objective: The statistic to compare.
            seed: Seed of the order within blocks.
            wait_ratio: Busy wait added to each run of the first new side, as a fraction of the run.
            tells_why: Whether to reserve time for profiles after the blocks.
        """
        self.experiment, self.a, self.news, self.rules = opened, a, news, rules
        self.objective, self.seed, self.wait_ratio = objective, seed, wait_ratio
        self.tells_why = tells_why
        self.watch = opened.watch
        self.baseline = opened.base_measuring(a, load=self._taken_by_all)
        for new in news:
            for setting, missing in new.side.unmet.items():
                if setting not in a.unmet:
                    self.baseline.note(f"{new.name}: {finding_words.unmet(setting, missing)}")
        # Nothing begins in the time of the answer, also before the blocks are planned.
        self.budget = opened.budget.reserve(opened.answer_s)
        self.after_s = opened.answer_s  # seconds needed after the blocks, in any budget
        self.state: duel.Duel | None = None
        self.starts: list[Measured] = []
        self.before_s = 0.0  # until the first block
        self.missing_s = 0.0  # that the fewest blocks with controls lack before the first
        self._exact_s = 0.0  # that an evaluation in float64 may take
        self.trial_ns = 0.0  # as the sides alone let expect

    def _taken_by_all(self, work: Workload) -> Workload:
        """Return the workload with its ids limited to rows that exist in the embeddings of every new side."""
        for new in self.news:
            rows = rows_of(new.side.model.ir)
            work = within_rows(work, {a: rows[b] for b, a in new.pairs.items() if b in rows})
        return work

    # --- each side alone

    def begin(self) -> None:
        """Run each side on its own to measure its cost, and compare its outputs with those of the base.

        Raises:
            OrtuneError: The base does not run, or no other side does.
        """
        baseline = self.baseline
        find_checked_inputs(baseline, self.budget, "A")
        self.a = baseline.side
        self._exact_s = evaluation_limit_s(self.budget)
        check_against_float64(baseline, self._exact_s, "A")
        for new in self.news:
            folder, model = self.experiment.scratch / "feeds", new.side.model.ir
            refs = pairing.feeds_for(baseline.refs, model, new.pairs, folder, new.name)
            wait = self.wait_ratio if new.arm == NEW else 0.0
            new.contestant = baseline.arm(new.arm, side=new.side, refs=refs, wait=wait)
            renamed = ", ".join(f"{a} -> {b}" for b, a in new.pairs.items() if a != b)
            if renamed:
                self.watch.say(f"inputs paired: {renamed}")
        self.watch.line(PLANNING)
        run_pilot(
            baseline,
            self.objective,
            self.budget,
            # Each new side runs once alone, and is investigated if its outputs differ; then comes a block of all sides.
            rest=lambda: (2 + SIDE_RUNS) * len(self.news) + 1,
        )
        baseline.notes += in_browser("A", baseline.pilot.first.done)
        # Without time for a block of pages, B gives outputs alone, and need not wait until V8 has compiled again.
        with nullcontext() if baseline.executor.caches else baseline.executor.without_warmup():
            for new in list(self.news):
                if not self._compiles_too_long(new):
                    self._try(new)
        for new in self.timed:
            first = new.trials[0]
            facts = replace(
                baseline.facts(),
                page=first.done.page,
                emulated=targets.target_of(new.side.plan).emulated(first),
            )
            if not baseline.functional_only:
                baseline.findings += rule_of(emulated_device).findings(facts)

    @property
    def timed(self) -> list[Contender]:
        """New sides whose times can be compared with those of the base."""
        return [new for new in self.news if new.comparable] if self.baseline.check.claims else []

    @property
    def base_wrong(self) -> bool:
        """Whether the base's outputs are wrong or not finite."""
        check = self.baseline.check
        return check.wrong or check.refuted or not check.claims

    @property
    def functional_only(self) -> bool:
        """Whether a side ran on an emulated GPU: outputs and placement are valid, times are not."""
        return self.baseline.functional_only

    def _compiles_too_long(self, new: Contender) -> bool:
        """Drop a side that compiles before it runs if the budget is too short for it; return whether it was dropped."""
        source = new.side.runtime.source
        if source is None or not source.compiles or len(self.news) == 1:
            return False
        alone = [self.baseline.pilot.first, *(trial for other in self.news for trial in other.trials)]
        plain = max(trial.elapsed_ns for trial in alone)
        # A trial that compiles, and one after it, neither shorter than one that compiles nothing.
        if self.budget.holds(2, plain):
            return False
        self.news.remove(new)
        self.baseline.note(source_words.not_compiled(source.called, 2e-9 * plain))
        return True

    def _try(self, new: Contender) -> None:
        """Run a new side on its own to measure its cost, and compare its outputs with the base's; record a failure."""
        baseline = self.baseline
        assert new.contestant is not None
        self.watch.line(FirstRun(side=new.name))
        outcome = self._first_outcome(new, new.contestant)
        if isinstance(outcome, Failed) and len(self.news) > 1 and outcome.reason != "no-runtime":
            self._failed(new, outcome)
            return
        trial = baseline.require_measured(new.contestant, outcome)
        trial = baseline.with_outputs(new.contestant, trial)
        require_page(self.objective, trial, new.name)
        renames = pairing.pair_outputs(self.a.model.ir, new.side.model.ir)
        baseline.check.renames[new.arm] = renames
        for case in baseline.work.cases:
            pairing.rename_outputs(Path(trial.outputs_path) / case.name, renames)
        baseline.comparer.labels = pairing.joint_labels(
            baseline.comparer.labels, self.a.model.ir, new.side.model.ir, renames
        )
        baseline.limit_alive(trial)
        baseline.notes += in_browser(new.name, trial.done)
        new.trials = [trial]
        judge(baseline, new, trial, self.budget, self._exact_s)
        alert_dependent_rows_of(baseline, new.side, new.contestant, new.name, self.budget.left_ns)
        if new.difference is not None and new.comparable:
            against = "A" if not baseline.check.wrong else "A without graph optimisation"
            words = [
                *(compare_rows.setting(r, new.side.plan) for r in trial.done.read_back),
                outputs_against(new.difference, against, base_wrong=self.base_wrong, wrong=new.wrong),
            ]
            self.watch.say(f"{new.name} ran: {'; '.join(words)}")

    def _first_outcome(self, new: Contender, given: Arm) -> Outcome:
        """Run a side for the first time, at a lower optimisation level if ONNX Runtime's optimiser breaks the model.

        Raises:
            MeasurementError: At the lower level the sides would be equal, or a side fails at a level set by the user.
        """
        baseline = self.baseline
        source = new.side.runtime.source
        if source is not None and source.compiles:
            # Later trials reuse the compiled model, so the next trial, not this one, shows their cost.
            self.watch.line(FirstRun(side=source.called))
            limits = baseline.executor.limits
            baseline.limits.set(max(LEAST_PATIENCE_S, self.budget.left_s))
            outcome = baseline.executor.trial(given, runs=0, fresh=True)
            baseline.executor.limits = limits
            if isinstance(outcome, Failed):  # a compilation longer than the budget would time out again
                return outcome
        outcome = baseline.executor.trial(given, runs=baseline.pilot.look_runs, keep_outputs=True)
        try:
            new.side, arm = at_level_that_runs(
                baseline, new.side, given, outcome, new.name, self.budget, itself=True
            )
        except MeasurementError:
            if isinstance(outcome, Measured) or len(self.news) == 1:
                raise
            return outcome
        new.contestant = arm
        if arm is given:
            return outcome
        return baseline.executor.trial(arm, runs=baseline.pilot.look_runs, keep_outputs=True)

    def _failed(self, new: Contender, outcome: Failed) -> None:
        """Record a new side that does not run; raise its error if no other side remains."""
        assert new.contestant is not None
        new.failed = outcome
        self.watch.say(f"{new.name} does not run: {failure(outcome)}")
        if all(other.failed for other in self.news):
            self.baseline.require_measured(new.contestant, outcome)

    # --- all of them in blocks

    def race(self) -> None:
        """Run blocks of all sides that can be timed, until every comparison is decided or the budget is spent.

        Raises:
            MeasurementError, Interrupted: As for ``Schedule.ask``.
        """
        baseline, timed = self.baseline, self.timed
        pilot, executor = baseline.pilot, baseline.executor
        # The pilot timed the base; a new side may take longer, and a block holds a trial of each.
        alone_ns = float(np.mean([pilot.first.elapsed_ns, *(new.trials[0].elapsed_ns for new in timed)]))
        baseline.limits.expect(max(pilot.trial_ns, *(new.trials[0].elapsed_ns for new in timed)))
        trial_ns = pilot.trial_ns * max(1.0, alone_ns / pilot.first.elapsed_ns)
        self.trial_ns = trial_ns
        self._keep_time(trial_ns, len(timed))
        design = self._design(trial_ns, len(timed))
        executor.arms = {
            **baseline.controls(),
            **{new.arm: new.contestant for new in timed if new.contestant},
        }
        replay = self.experiment.replay
        replay.mark_no_block()
        # With one seed the orders still differ from session to session: repeating a comparison must not
        # repeat its order of arms. The journal has it, so that a resumed session repeats its own.
        order = replay.once("order", int, lambda: int(1e9 * monotonic.now_s()))
        schedule = Sequential(self.rules, design, [new.arm for new in timed])
        drive(
            schedule,
            executor,
            rng=random.Random(f"{self.seed}-{order}"),
            budget=self.budget,
            stop=self.watch.stop,
            on_block=lambda block: self._on_block(schedule, block),
            calibrated=lambda judgement: self._retime(judgement, schedule),
        )
        self.state = schedule.state
        self._start_alone(self.state)
        require_unchanged(self.a, *(new.side for new in self.news))

    def _keep_time(self, trial_ns: float, n_new: int) -> None:
        """Reserve time for the steps after the blocks: separate starts, explanatory profiles, the result."""
        # STARTS further processes of every side, each alone.
        later_s = STARTS * (1 + n_new) * self.baseline.pilot.start_ns / 1e9
        later_s += 1e-9 * PROFILED_TRIALS * trial_ns if self.tells_why else 0.0
        self.after_s = self.experiment.answer_s + later_s
        # In a small budget the blocks precede the cold starts and the profiles for a reason. Those get at most a
        # fifth of the budget, after the fewest blocks of a test. The answer is written in any case.
        trials, least = self.budget.trials(trial_ns), duel.least_blocks(self.rules.share(n_new))
        sizes = (1 + n_new + len(duel.CONTROLS), 1 + n_new)
        # Example: 2 s per trial, 40 s left. Six blocks of four trials take 48 s, of two trials 24 s: 16 s are free.
        needed = next((least * n for n in sizes if least * n <= trials), trials)
        most_s = min(AFTER_SHARE * self.budget.total_s, 1e-9 * (trials - needed) * trial_ns)
        self.budget = self.budget.reserve(min(later_s, max(0.0, most_s)))

    def _design(self, trial_ns: float, n_new: int) -> duel.Design:
        """Return the design of the blocks that fit in the budget; shorten trials if a calibration would not fit."""
        before = self.baseline.pilot.trial_ns
        self.before_s = self.budget.spent_s
        n_arms = 1 + n_new + len(duel.CONTROLS)
        # The pilot measured only the base: the trials of all sides are shortened in the proportion of the base's.
        each_ns = self.budget.left_ns / (controls.CALIBRATION_BLOCKS * n_arms)
        self.baseline.shorten(each_ns * before / trial_ns)
        trial_ns *= self.baseline.pilot.trial_ns / before
        late_trials = 1e9 * duel.overrun_s(self.budget.end_s) / trial_ns
        trials = self.budget.trials(trial_ns)
        design = duel.design(trials, self.rules, n_new, late_trials=late_trials)
        turns, least = self.baseline.executor.timing.turns, duel.least_blocks(self.rules.share(n_new))
        self.missing_s = max(0.0, 1e-9 * (least * n_arms - trials) * trial_ns)
        self.watch.say(
            compare_words.blocks_within(
                trial_ns,
                turns.describe(),
                design.n_blocks,
                self.budget.total_s,
                controlled=design.controlled,
                least=least,
            )
        )
        return design

    def _retime(self, judgement: controls.Judgement, schedule: Sequential) -> None:
        """Set the duration of later trials from the noise of the calibration, so that all blocks fit in the budget."""
        self.baseline.retime(judgement, measured(schedule.calibration, BASE))
        n_blocks = max(1, schedule.state.design.n_blocks - controls.CALIBRATION_BLOCKS)
        # A margin of 10 %, as in ``duel.design``: one in ten of these blocks carries a control.
        self.baseline.shorten(self.budget.left_ns / (1.1 * (1 + len(schedule.state.arms)) * n_blocks))

    def _on_block(self, schedule: Sequential, block: Block) -> None:
        self.experiment.replay.block(block)
        state = schedule.state
        standing = []
        if block.phase != "calibration":
            for arm in state.arms if len(state.arms) == 1 else state.live:
                interval = evidence.confidence_sequence(state.ratios(arm), prior_scale=state.prior_scale)
                standing.append((LETTERS[arm], interval.ratio, interval.ratio_low, interval.ratio_high))
        controlled = state.design.controlled
        what = compare_words.progress(len(state.blocks), calibrating=not standing, controlled=controlled)
        ranking = compare_words.so_far(standing)
        self.watch.progress(what, self.budget.spent_s, self.budget.total_s, ranking)

    def _start_alone(self, state: duel.Duel) -> None:
        """Measure the load time and first run of each side in separate processes, if the budget allows."""
        raced = [new for new in self.news if new.arm in state.arms and new.arm not in state.failed]
        for new in raced:
            new.first_load_ns = self.baseline.executor.first_load_ns(new.arm)
        # A side with a cache on disk has written it by now, but has not yet been timed alone loading from it.
        wrote = self.baseline.executor.first_load_ns(BASE) or any(new.first_load_ns for new in raced)
        fits = self.experiment.budget.holds(STARTS * (1 + len(raced)), self.baseline.pilot.start_ns)
        more = fits and state.ended != "stopped" and (state.design.controlled or wrote) and raced
        arms = [new.contestant for new in raced if new.contestant]
        base, *others = self.baseline.start_alone(self.baseline.arm(BASE), *arms) if more else [[]]
        self.starts = [self.baseline.pilot.first, *base]
        for new, trials in zip(raced, others, strict=False):
            new.trials += trials

    def enough_s(self) -> float | None:
        """Return the budget, in seconds, for the fewest blocks of a claim with controls; None if of no use.

        It is at least the given budget and the time that was missing in it, even if trials became faster meanwhile.
        """
        state = self.state
        if state is None:
            return None
        least = duel.least_blocks(state.side_alpha)
        if self.rules.max_blocks < least:
            return None
        fewest = min((len(state.ratios(arm)) for arm in state.arms if arm not in state.failed), default=0)
        if state.design.controlled and fewest >= least:
            return None
        # ``block_ns`` is normalised to two trials.
        trial_ns = float(np.median(state.block_ns)) / 2 if state.block_ns else self.trial_ns
        arms = 1 + len(state.arms) + len(duel.CONTROLS)
        reserved = replace(self.budget, reserved_s=self.after_s)
        needed_s = reserved.needed_s(least * arms, trial_ns, before_s=self.before_s)
        return max(needed_s, self.given_s + self.missing_s)

    @property
    def given_s(self) -> float:
        """The given budget in seconds; 0 if there was none."""
        return self.budget.total_s if math.isfinite(self.budget.total_s) else 0.0
