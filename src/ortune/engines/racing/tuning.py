"""Runs a search with real trials of plans, within a budget."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ortune.engines.racing.plan_runs import PlanRuns
from ortune.measuring import output_check
from ortune.measuring.budget import Budget
from ortune.measuring.driver import drive
from ortune.measuring.measuring import Measuring
from ortune.measuring.pace import Pace
from ortune.measuring.replay import Replay
from ortune.measuring.rewriting import ModelVariants
from ortune.measuring.watcher import Watcher
from ortune.objectives import Objective
from ortune.records import Block, Calibration, Plan, PrecisionRow, UntestedTarget, messages
from ortune.rules import EVERY_RULE
from ortune.search import controls, trial_counts
from ortune.search.blocks import BASE, measured
from ortune.search.figures import LATENCIES, STATISTICS, TIMES, without_latencies
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import CURRENT, Entry, Halving
from ortune.search.phases import LEAST_CHECKS_S, PROFILED_TRIALS, RACE_TIMES, WHY_SHARE
from ortune.search.progress import race_status, ranking
from ortune.search.schedule import Steps
from ortune.search.state import Search

WHY_PROCESSES = 3
"""Maximum number of profiled processes per side that explain the winner's gain."""
EXPLORED_SCALE = 0.05
"""Scatter of blocks that is assumed without a calibration, in log units, typical of a machine with other programs."""


T = TypeVar("T")


class Tuning:
    """A running tuning: first enter plans, then call ``calibrate`` and ``race``, or ``explore``, then confirm a winner.

    Attributes:
        search: The search with its measurements.
        entries: The proposed plans, including the common part of every plan.
        refused: Plans not proposed, with the reason; ``untested`` lists targets not compared, or not by their default.
        precision: Results of the quantized models; ``calibration`` describes their calibration data.
        whole_budget: The budget of the command; ``budget`` excludes the time reserved for explanation and answer.
        answer_s, why_s: Seconds reserved for the answer, and for the profiles that explain it.
        forecast: The announced number of configurations that fit in the budget.
        enough_s: A sufficient budget in seconds for the steps that did not fit; 0 if all steps fit.
        exploring: Whether plans are measured without a confirmation.
        spent: Nanoseconds by phase.
        stopped: Whether the user stopped the tuning before its end.
        skipped: Skipped checks of the model; ``checks_s`` is a budget that suffices for these checks.
    """

    def __init__(
        self,
        baseline: Measuring,
        replay: Replay,
        watch: Watcher,
        *,
        objective: Objective,
        worth: float,
        allowed: Sequence[str],
        budget: Budget,
        current: Plan | None,
        answer_s: float = 0.0,
        worth_adopting: float = 0.0,
        models: ModelVariants | None = None,
    ) -> None:
        """Prepare a tuning; nothing runs yet.

        Args:
            baseline: The default, and the means to run plans.
            replay: Measurements of an interrupted session, and the clock.
            watch: Progress and cancellation callbacks.
            objective: Objective of the race.
            worth: The smallest gain that is worth a change, as a fraction.
            allowed: Allowed safety classes and guards.
            budget: The budget of the whole command.
            current: The user's current plan; None for the default.
            answer_s: Seconds of the budget that are reserved for the answer.
            worth_adopting: The smallest gain that justifies another build of ONNX Runtime, as a fraction; 0 for any.
            models: Creates the models of plans with rewrites; None for the default implementation.
        """
        self.baseline, self.replay, self.watch = baseline, replay, watch
        self.whole_budget = budget
        self.answer_s = answer_s
        self.why_processes, self.why_s = 0, 0.0
        self.skipped: list[str] = []
        self.checks_s = 0
        self.log, self.side = baseline.log, baseline.side
        custom_ops = tuple(baseline.options.custom_ops)
        self.models = models or ModelVariants(self.side, baseline.scratch, custom_ops, watch.line)
        self.rng = random.Random(f"tune-{baseline.options.seed}")
        self.search = Search(
            default=baseline.side.plan,
            current=current,
            host=baseline.host,
            packages=baseline.side.added_providers if worth_adopting else frozenset(),
            worth_adopting=worth_adopting,
            race=Halving(
                worth=worth,
                objective=objective,
                allowed=tuple(allowed),
                default=baseline.side.plan,
                # The default is the current plan, so no further plan is raced.
                with_current=current not in (None, baseline.side.plan),
            ),
        )
        self.plan_runs = PlanRuns(
            baseline,
            self.search,
            self.models,
            replay,
            budget=lambda: self.race_budget,
            whole_budget=budget.running,
        )
        self.entries: list[Entry] = []
        self.refused: tuple[str, ...] = ()
        self.untested: tuple[UntestedTarget, ...] = ()
        self.precision: list[PrecisionRow] = []
        self.calibration: Calibration | None = None
        self.forecast: messages.Message | str = ""
        self.enough_s, self.exploring, self.stopped = 0, False, False
        self.spent = {"before": 0, "calibration": 0, "race": 0, "confirm": 0}

    # --- before the race

    def reserve_for_explanation(self, objective: Objective) -> None:
        """Reserve time for the processes that explain the winner's gain, without reducing the search's minimum."""
        each_s = 1e-9 * PROFILED_TRIALS * self.baseline.pilot.first.elapsed_ns
        if objective in TIMES:
            spare_s = 1e-9 * self.spare_ns(WHY_SHARE) - self.map_s
            self.why_processes = max(0, min(WHY_PROCESSES, int(spare_s / each_s)))
        self.why_s = self.why_processes * each_s + (self.map_s if self.why_processes else 0.0)

    @property
    def map_s(self) -> float:
        """Estimated seconds for mapping profiles to the user's nodes, which takes about as long as the answer."""
        return self.answer_s

    def pace(self, share: float) -> Pace:
        """Return a pace for work between trials, limited to a fraction of the time that remains before the race."""
        end_s = self.budget.running.spent_s + share * self.budget.left_s
        return Pace(lambda: end_s - self.budget.running.spent_s, LEAST_CHECKS_S, EVERY_RULE)

    def answer_pace(self) -> Pace:
        """Return a pace for work after the race, with all time except that reserved for explanation and answer."""
        running = self.budget.running
        return Pace(lambda: running.left_s, LEAST_CHECKS_S, EVERY_RULE)

    def record_skipped(self, pace: Pace, share: float = 1.0) -> None:
        """Record the skipped checks, and the budget that suffices for them if they may take ``share`` of it."""
        if pace.left_out:
            self.skipped += pace.left_out
            needed_s = pace.needed_s(self.whole_budget.total_s, share)
            self.checks_s = max(self.checks_s, self.whole_budget.enough_s(needed_s))

    def holds_block(self, trial_ns: float) -> bool:
        """Return whether a block with one plan fits in the remaining time, for trials of that duration."""
        trials, references = self.budget.trials(trial_ns), self.search.race.references
        return trial_counts.explored_plans(trials, wanted=1, references=references) > 0

    @property
    def least_trials(self) -> float:
        """Minimum number of trials needed after the pilot."""
        return self.needed_trials(1)

    @property
    def only_timed_trials(self) -> float:
        """Number of additional trials if the default's outputs are wrong and it is only timed; else 0."""
        n_blocks = controls.CALIBRATION_BLOCKS
        return RACE_TIMES * n_blocks * len(self.search.race.only_timed(n_blocks))

    def needed_trials(self, plans: int) -> float:
        """Return the number of trials that a search of ``plans`` plans needs from the calibration on."""
        return trial_counts.needed_trials(plans, self.search.race.references) + self.only_timed_trials

    def spare_ns(self, share: float) -> float:
        """Return the time for an optional step in nanoseconds: at most a fraction of the remaining time.

        The time that a search needs is left; if no search fits, the result is 0 and the time goes to an exploration.
        """
        # A search with too little time shortens its trials, so the shortest trial determines its minimum time.
        beyond_ns = self.budget.left_ns - self.least_trials * self.baseline.pilot.least_trial_ns
        return max(0.0, min(share * self.budget.left_ns, beyond_ns))

    def budget_for_s(self, plans: int, trial_ns: float, more_trials: float = 0.0) -> int:
        """Return the budget in seconds that suffices for ``plans`` plans and the skipped checks.

        Args:
            plans: The number of plans.
            trial_ns: Duration of a trial.
            more_trials: Number of additional trials.
        """
        # Until the race began, or until now.
        before_s = 1e-9 * self.spent["before"] or self.budget.running.spent_s
        needed_s = self.budget.needed_s(self.needed_trials(plans) + more_trials, trial_ns, before_s=before_s)
        return max(self.budget.enough_s(needed_s), self.checks_s)

    def report_no_race(self, why: str = "", *, plans: int = 1) -> None:
        """Report that no other plan fits in the budget, with a sufficient budget, or ``why`` nothing is raced."""
        trial_ns = self.baseline.pilot.trial_ns
        self.enough_s = 0 if why else self.budget_for_s(plans, trial_ns)
        budget_s, enough_s = self.whole_budget.total_s, self.enough_s
        self.forecast = why or messages.BudgetTooShort(
            trial_ns=trial_ns, budget_s=budget_s, enough_s=enough_s
        )
        self.watch.tell(self.forecast)
        self.without_controls(0.0)

    def without_controls(self, scale: float) -> None:
        """Set the usual statistic and the given scatter without a calibration, which makes results exploratory."""
        race = self.search.race
        race.statistic, race.scale = STATISTICS[race.objective] or LATENCIES[0], scale
        self.search.judgement = controls.unjudged(STATISTICS[race.objective], scale)

    def record_other_work(self) -> None:
        """Record the end of a step that is not a trial, so later budget decisions include its time."""
        self.replay.record_other_work()

    @property
    def budget(self) -> Budget:
        """Budget of search and confirmation, after reserving time for explanation and answer."""
        return self.whole_budget.reserve(self.answer_s + self.why_s)

    def calibrate(self) -> None:
        """Run the controls, and in the same blocks the first trials of the plans.

        If trials take so long that the time ends first, plans are explored without a confirmation.

        Raises:
            MeasurementError, Interrupted: As for ``controls.calibrate``.
        """
        began, search, race = self.now_ns, self.search, self.search.race
        # In addition to the references, two places are for the controls.
        beside = race.references + len(race.only_timed(1)) + 2
        room = max(1, self.baseline.executor.most_alive - beside)
        first_turns = FirstTurns(race=race, room=room)

        def on_block(block: Block) -> None:
            first_turns.count_turns(block)
            self.record_block(block, messages.CalibrationBlock(number=block.index + 1))

        def again() -> bool:
            plans = sum(entry.live for entry in race.entries.values())
            dropped, beyond_ns = first_turns.restart(self.plan_runs.typical_ns)
            if beyond_ns:
                self.exploring = True
                again_trials = trial_counts.calibration_trials(race.references)
                self.enough_s = self.budget_for_s(1, self.plan_runs.typical_ns, again_trials)
            self.watch.tell(
                messages.FailedControls(
                    plans=plans, dropped=len(dropped), beyond_ns=beyond_ns, enough_s=self.enough_s
                )
            )
            return not self.exploring

        references = [BASE, CURRENT][: race.references]
        steps = race.calibrate(references, STATISTICS[race.objective], also=first_turns, again=again)
        search.judgement = self.run_stage(steps, on_block)
        blocks = race.calibration
        search.calibration = [without_latencies(block) for block in blocks]
        search.controls = list(search.judgement.controls)
        # Plans ran their first trials in the same blocks, which count as time of the race.
        trials = [trial.arm for block in blocks for trial in block.trials]
        raced = sum(arm in race.entries for arm in trials) / max(1, len(trials))
        self.spent["race"] = int(raced * (self.now_ns - began))
        self.spent["calibration"] = self.now_ns - began - self.spent["race"]
        race.statistic, race.scale = search.judgement.statistic, search.judgement.scale
        if not search.judgement.controls:
            self._cut_short()
        if self.exploring:
            race.kept_ns = 0.0
        if not search.judgement.ok:
            return
        self.baseline.retime(search.judgement, measured(blocks, BASE))
        # The first trials count in the race, with the statistic that the calibration has chosen.
        race.earlier = search.calibration
        for block in search.calibration:
            race.record_ratios(block)

    def _cut_short(self) -> None:
        """Continue as an exploration, because trials take longer than expected and the controls did not fit."""
        race, trial_ns = self.search.race, self.plan_runs.typical_ns
        race.scale, self.exploring = EXPLORED_SCALE, True
        self.enough_s = self.budget_for_s(1, trial_ns)
        needed_ns = self.needed_trials(1) * trial_ns
        plans, wanted = sum(entry.live for entry in race.entries.values()), len(self.entries)
        self.forecast = messages.ExplorationForecast(
            plans=plans, wanted=wanted, left_ns=race.left.ns, needed_ns=needed_ns, enough_s=self.enough_s
        )
        self.watch.tell(self.forecast)

    # --- the race

    def race(self, cpus: int) -> None:
        """Screen plans, combine those that help, try values near the leader's, and drop settings without a gain."""
        search, race = self.search, self.search.race
        with self._counted_as_race():
            self.run_stage(search.find_winner(self.waiting, cpus), self._raced)
            if search.winner is None and self.waiting and not self.watch.stop():
                # Nothing will be confirmed, so the time reserved for that is used for further plans and blocks.
                least = trial_counts.least_confirm_trials(race.references)
                race.kept_ns = min(race.kept_ns, least * self.baseline.pilot.trial_ns)
                self.run_stage(search.find_winner(self.waiting, cpus), self._raced)
            if race.with_current and self.search.required == self.side.plan:
                search.consider_default()
            unranked = any(e.status == "not-tried" and e.ratios for e in race.entries.values())
            if search.winner is None and unranked:
                # The plan has fewer blocks than a ranking needs, which is reported with a sufficient budget.
                self.exploring, self.enough_s = True, self.budget_for_s(1, self.plan_runs.typical_ns)

    def rank(self, n_blocks: int) -> None:
        """Run ``n_blocks`` blocks of all plans, so that all can be ranked and not only the fastest."""
        with self._counted_as_race():
            self.run_stage(self.search.rank(n_blocks), self._raced)

    def explore(self) -> None:
        """Run as many blocks as fit in the time, mostly of the leading plans; without controls no gain is claimed."""
        with self._counted_as_race():
            self.run_stage(self.search.screen(self.waiting, followed=False), self._raced)

    @contextmanager
    def _counted_as_race(self) -> Iterator[None]:
        """Add the time of a ``with`` block to that of the race, and record whether the user stopped it."""
        began = self.now_ns
        yield
        self.spent["race"] += self.now_ns - began
        self.stopped = self.watch.stop()

    @property
    def now_ns(self) -> int:
        """Time since the session began, in nanoseconds."""
        return self.replay.clock()

    @property
    def race_budget(self) -> Budget:
        """Budget of the race, or of the confirmation once it has begun, by the running clock."""
        return self.budget.reserve(1e-9 * self.search.race.kept_ns).running

    def run_stage(self, steps: Steps[T], on_block: Callable[[Block], None]) -> T:
        """Run the blocks of a stage, check outputs after each, and return the stage's result."""
        # The driver runs a schedule, which returns nothing, so the stage's result is stored here.
        results: list[T] = []

        def stage() -> Steps[None]:
            results.append((yield from steps))

        def ran(block: Block) -> None:
            self.plan_runs.check_outputs(block)
            on_block(block)

        race = self.search.race
        race.begin(stage())
        drive(
            race,
            self.plan_runs,
            rng=self.rng,
            # Decisions depend only on data stored with the trials, so a resumed session repeats them.
            budget=self.budget,
            stop=self.watch.stop,
            ready=self.plan_runs.create_models,
            on_block=ran,
        )
        return results[0]

    @property
    def waiting(self) -> list[Entry]:
        """Proposed plans that have not entered the race."""
        return [entry for entry in self.entries if entry.arm not in self.search.race.entries]

    @property
    def unspent_ns(self) -> float:
        """Budget left after the last block, in nanoseconds; 0 if the user stopped the tuning."""
        return 0.0 if self.stopped else max(0.0, self.budget.running.left_ns)

    def _raced(self, block: Block) -> None:
        self.record_block(block, race_status(self.search.race), ranking(self.search.race))

    def record_block(
        self, block: Block, what: messages.Message, leaders: Sequence[messages.Message] = ()
    ) -> None:
        """Record a new block in the journal, and report the progress and the leaders."""
        self.replay.block(block)
        self.watch.progress(what, self.now_ns / 1e9, self.whole_budget.total_s, leaders)

    # --- after the race

    def reference_outputs(self) -> Path | None:
        """Return the folder with the default's outputs for the first case; None if there is none."""
        folder = output_check.right_outputs(self.baseline) / self.baseline.work.cases[0].name
        return folder if folder.is_dir() else None
