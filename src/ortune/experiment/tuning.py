"""A search fed with real trials: its plans as processes, within the time that a budget leaves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ortune.errors import Interrupted, MeasurementError, OrtuneError
from ortune.experiment.baseline import Baseline
from ortune.experiment.driver import drive
from ortune.experiment.limits import patience_s
from ortune.experiment.replay import NO_MODEL, SEEN, Replay
from ortune.experiment.watcher import Watcher
from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.knobs.propose import FIRST
from ortune.records import (
    Block,
    Calibration,
    Failed,
    Measured,
    Outcome,
    OutputDifference,
    Plan,
    PrecisionRow,
)
from ortune.rewrites import find as find_rewrite
from ortune.search import budget, confirm, controls
from ortune.search.blocks import BASE, IDENTICAL, log_ratios, measured
from ortune.search.figures import LATENCIES, OBJECTIVES, TIMES, without_latencies
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import CURRENT, Entry, Halving, expected
from ortune.search.phases import (
    ALONE_SHARE,
    BEYOND_TIMES,
    LEAST_SEARCH_SHARE,
    PROFILED_TRIALS,
    RACE_TIMES,
    WHY_SHARE,
)
from ortune.search.plan_edits import changed, merge
from ortune.search.progress import explored, forecast, nothing_held, race_status, repeat_status
from ortune.search.proposals import Proposed
from ortune.search.schedule import Steps
from ortune.search.state import Search
from ortune.targets.task import Limits
from ortune.trials.rewriting import Models
from ortune.trials.tolerance import Tolerance

NUMERICS_TOLERANCE = Tolerance(text="0.05", number=0.05)
"""Relative L2 distance of what --allow numerics lets through where no --tolerance is given."""
WHY_PROCESSES = 3
"""Profiled processes that tell why the winner won."""
EXPLORED_SCALE = 0.05
"""Of blocks, log units, where no calibration has told: as beside a neighbour."""


T = TypeVar("T")


class Tuning:
    """One tuning while it runs: ``enter``, ``calibrate``, ``race`` and ``confirm``, in this order, or ``explore``.

    Attributes:
        search: What was measured.
        entries: What was proposed, with what is part of every plan in it.
        refused: What was not, and why.
        precision: The models of fewer bits that were tried; ``calibration`` is what they were made with.
        forecast: What the budget was said to hold.
        enough_s: The budget that holds what this one did not; 0 where it held all.
        exploring: Plans are seen, and none is confirmed.
        spent: Nanoseconds by phase.
        stopped: By hand, with something left undone.
    """

    def __init__(
        self,
        baseline: Baseline,
        replay: Replay,
        watch: Watcher,
        *,
        objective: str,
        worth: float,
        allowed: Sequence[str],
        budget_s: float,
        current: Plan | None,
        after_s: float = 0.0,
    ) -> None:
        """Takes a baseline that was not run yet.

        Args:
            baseline: The default, and the means to run plans.
            replay: What an interrupted session measured, and the clock.
            watch: Who is told, and says when to stop.
            objective: Of the race, as are ``worth`` and ``allowed``.
            worth: The smallest gain that is worth a change, as a share.
            allowed: Safety classes and guards that are let through.
            budget_s: For everything.
            current: What the user runs today, None for the default where nothing was said.
            after_s: Of the budget, what is kept for the answer.
        """
        self.baseline, self.replay, self.watch = baseline, replay, watch
        self.budget_s, self.required, self.current = budget_s, Plan(), current
        self.delivery_s = replay.once("after", float, lambda: after_s)
        self.why_processes, self.why_s = 0, 0.0
        self.clock, self.log, self.side = replay.clock, baseline.log, baseline.side
        self.models = Models(self.side, baseline.scratch, tuple(baseline.options.custom_ops), watch.say)
        self.rng, self._trials = random.Random(f"tune-{baseline.options.seed}"), _Trials(self)
        self.search = Search(
            default=baseline.side.plan,
            current=current,
            race=Halving(
                worth=worth,
                objective=objective,
                allowed=tuple(allowed),
                default=baseline.side.plan,
                # The default *is* what runs today: nothing further to race.
                with_current=current not in (None, baseline.side.plan),
            ),
        )
        self.entries: list[Entry] = []
        self.refused: tuple[str, ...] = ()
        self.precision: list[PrecisionRow] = []
        self.calibration: Calibration | None = None
        self.forecast, self.enough_s, self.exploring = "", 0, False
        self.spent = {"before": 0, "calibration": 0, "race": 0, "confirm": 0}
        self.stopped = False

    # --- before the race

    def step_down(self) -> None:
        """Where the default is wrong, all is held against the highest level that is right; the default is timed beside.

        What runs today and is wrong in the same way is no base either.
        """
        baseline, search = self.baseline, self.search
        level = LEVEL.name
        asked = baseline.side.plan.settings.get(level, LEVEL.default)
        baseline.check.step_down()
        if baseline.check.wrong_plan is None:
            return
        self.side, search.default = baseline.side, baseline.side.plan
        if self.current is not None and self.current.settings.get(level, LEVEL.default) == asked:
            self.current = search.current = None
        search.race.with_current = self.current not in (None, search.default)

    def enter(self, proposed: Sequence[Proposed], refused: Sequence[str], *, required: Plan) -> bool:
        """Enters as many of the plans as the budget holds, and says so before it is spent; False: not even one.

        The answer is then what the pilot saw of the default, undecided, with the budget that a search needs. Where it
        holds no confirmation, ``exploring`` is set, and the plans are those that can be seen.
        """
        self.required, self.refused = required, tuple(refused)
        self.entries = self._entries(proposed)
        self.pass_on()
        left = self.before_ns
        self.spent["before"] = self.replay.decided()
        race, wanted = self.search.race, len(self.entries)
        first = sum(e.expected <= expected(FIRST) for e in self.entries)
        # Shorter trials rather than fewer plans: what is not tried cannot win.
        share = LEAST_SEARCH_SHARE * left / RACE_TIMES
        self.baseline.pilot.shorten(
            *(share / budget.least_trials(n, race.references) for n in (first, wanted))
        )
        trial_ns = self.baseline.pilot.trial_ns
        split = self.replay.once(
            "split",
            budget.Split | None,
            lambda: budget.divide(left, trial_ns, wanted=wanted, references=race.references),
        )
        self.replay.whole()
        if split is None:
            return self._explores(left, wanted)
        if split.plans < wanted:
            self.enough_s = self._enough_s(wanted, trial_ns)
        self.forecast = forecast(
            split,
            wanted,
            budget_s=self.budget_s,
            spent_ns=self.clock(),
            trial_ns=trial_ns,
            load_ns=self.baseline.pilot.first.done.load_ns,
            enough_s=self.enough_s,
        )
        self.watch.say(self.forecast)
        race.first_trial_ns = trial_ns
        self._arms()
        race.kept_ns = split.confirm_ns
        self._add(self.entries[: split.plans])
        return True

    def keep_for_why(self, objective: str) -> None:
        """Keeps time for the processes that tell why the winner won; none that a search would miss."""
        each_s = PROFILED_TRIALS * self.baseline.pilot.first.elapsed_ns / 1e9
        if objective in TIMES:
            self.why_processes = min(WHY_PROCESSES, int(1e-9 * self.spare_ns(WHY_SHARE) / each_s))
        self.why_s = self.why_processes * each_s

    def _explores(self, left_ns: float, wanted: int) -> bool:
        """Enters the plans that can be seen where none can be confirmed; False: not even one."""
        race = self.search.race
        # The shortest trials: more plans, and more blocks of each.
        self.baseline.pilot.shorten(0.0)
        trial_ns = self.baseline.pilot.trial_ns
        plans = budget.exploratory(left_ns, trial_ns, wanted=wanted, references=race.references)
        if not plans:
            self.refuse()
            return False
        self.exploring, self.enough_s = True, self._enough_s(1, trial_ns)
        needed_ns = budget.needed_ns(1, trial_ns, race.references)
        self.forecast = explored(plans, wanted, left_ns=left_ns, needed_ns=needed_ns, enough_s=self.enough_s)
        self.watch.say(self.forecast)
        self._uncontrolled(EXPLORED_SCALE)
        race.first_trial_ns = trial_ns
        self._arms()
        race.kept_ns = 0.0
        self._add(self.entries[:plans])
        return True

    def _add(self, entries: Sequence[Entry]) -> None:
        """Enters plans with their models made."""
        for entry in entries:
            self._ready([self.search.race.add(entry).arm])

    def holds(self, trial_ns: float) -> bool:
        """Whether what is left of the budget holds a block of one plan, of trials that take so long."""
        references = self.search.race.references
        return budget.exploratory(self.before_ns, trial_ns, wanted=1, references=references) > 0

    @property
    def least_trials(self) -> float:
        """Trials that what comes after the pilot needs at least."""
        return budget.needed_ns(1, 1.0, self.search.race.references)

    def spare_ns(self, share: float) -> float:
        """What a step may take that can be left out: so much of the time left, and nothing that a search needs.

        Where no search fits there is none to spare: the plans that can be seen have all of it.
        """
        beyond_ns = self.before_ns - self.least_trials * self.baseline.pilot.least_trial_ns
        return max(0.0, min(share * self.before_ns, beyond_ns))

    def _enough_s(self, plans: int, trial_ns: float, more_ns: float = 0.0) -> int:
        """The budget that holds so many plans, and what else is to come beside what was spent before the race."""
        needed_ns = budget.needed_ns(plans, trial_ns, self.search.race.references) + more_ns
        before_ns = self.spent["before"] or self.clock()
        return budget.enough_s(needed_ns + before_ns + 1e9 * (self.delivery_s + self.why_s))

    def refuse(self, why: str = "") -> None:
        """Says that the budget holds no other plan, and which one does; or why nothing is raced in any."""
        trial_ns = self.baseline.pilot.trial_ns
        self.enough_s = 0 if why else self._enough_s(1, trial_ns)
        self.forecast = why or nothing_held(trial_ns, self.budget_s, self.enough_s)
        self.watch.say(self.forecast)
        self._uncontrolled(0.0)

    def _uncontrolled(self, scale: float) -> None:
        """What is told without a calibration: by the usual statistic, and nothing of it a claim."""
        race = self.search.race
        race.estimand, race.scale = OBJECTIVES[race.objective] or LATENCIES[0], scale
        self.search.judgement = controls.Judgement(
            estimand=race.estimand, controls=(), scale=scale, within=0.0, between=0.0
        )

    def pass_on(self) -> None:
        """What is no trial has ended: the time that it took is known to all decisions from now on."""
        self.replay.pass_on()

    @property
    def before_ns(self) -> float:
        """Left before the race; by the clock of what is journalled, so that a session that goes on decides the same."""
        return self._end_ns - self.replay.decided()

    @property
    def _end_ns(self) -> float:
        """When the winner is to be confirmed."""
        return (self.budget_s - self.delivery_s - self.why_s) * 1e9

    def _entries(self, proposed: Sequence[Proposed]) -> list[Entry]:
        """What is proposed, each with what the user asked for in it; what then says the same twice, once."""
        entries: dict[str, Entry] = {}
        wrong = self.baseline.check.wrong_plan
        if self.current is not None and self.search.race.with_current:
            plan = merge(self.required, self.current)
            entries[plan.id] = Entry(plan=plan, origin="what runs today", expected=expected(1.0))
        for proposal in proposed:
            merged = changed(proposal.plan, self.required, self.required)
            if merged is None:
                self.refused += (f"{proposal.plan.describe()}: conflicts with the requested settings",)
            elif merged.id not in entries and (merged != self.required or proposal.plan == Plan()):
                entries[merged.id] = Entry(
                    plan=merged, origin=proposal.origin, expected=expected(proposal.prior)
                )
        ordered = list(entries.values())
        if wrong is not None:
            # Timed for whoever runs it today; its outputs keep it from being shipped.
            ordered.insert(1, Entry(plan=wrong, origin="the untouched default", expected=expected(1.0)))
        return ordered

    def _arms(self) -> None:
        baseline = self.baseline
        arms = baseline.controls()
        if self.current is not None and self.search.race.with_current:
            model = self.models.path(self.current, self._rewriting_s(self.current))
            arms[CURRENT] = baseline.arm(CURRENT, plan=self.current, model=model)
        baseline.executor.arms = arms

    def calibrate(self) -> None:
        """The controls, and in the same blocks the first turns of the plans to try.

        Raises:
            MeasurementError, Interrupted: As ``controls.calibrate``.
        """
        began, search, race = self.clock(), self.search, self.search.race
        room = max(1, self.baseline.executor.most_alive - race.references - 2)
        first_turns = FirstTurns(race=race, room=room)

        def on_block(block: Block) -> None:
            first_turns.see(block)
            self._after(block, f"calibrating, block {block.index + 1} of nine")

        def again() -> bool:
            plans = sum(entry.live for entry in race.entries.values())
            dropped, beyond_ns = first_turns.again(self.typical_ns)
            if beyond_ns:
                self.exploring = True
                calibrations_ns = budget.calibration_ns(self.typical_ns, race.references)
                self.enough_s = self._enough_s(1, self.typical_ns, more_ns=calibrations_ns)
            self.watch.say(repeat_status(plans, len(dropped), beyond_ns, self.enough_s))
            return not self.exploring

        references = [BASE, CURRENT][: race.references]
        steps = race.calibrate(references, OBJECTIVES[race.objective], also=first_turns, again=again)
        search.judgement = self._run(steps, on_block)
        blocks = race.calibration
        search.calibration = [without_latencies(block) for block in blocks]
        search.controls = list(search.judgement.controls)
        # Plans had their first turns in the same blocks: that is the race's part.
        trials = [trial.arm for block in blocks for trial in block.trials]
        raced = sum(arm in race.entries for arm in trials) / max(1, len(trials))
        self.spent["race"] = int(raced * (self.clock() - began))
        self.spent["calibration"] = self.clock() - began - self.spent["race"]
        race.estimand, race.scale = search.judgement.estimand, search.judgement.scale
        if self.exploring:
            race.kept_ns = 0.0
            return
        self.baseline.pilot.retime(search.judgement, measured(blocks, BASE))
        race.earlier = search.calibration
        for block in search.calibration:
            race.rate(block)

    # --- the race

    def race(self, cpus: int) -> None:
        """Screens, combines what helped, explores numbers near the leader's, and drops what does not pay."""
        began, search, race = self.clock(), self.search, self.search.race
        waiting = [entry for entry in self.entries if entry.arm not in race.entries]
        self._run(search.find_winner(waiting, self.required, cpus), self._raced)
        if race.with_current and self.required == self.side.plan:
            search.consider_default()
        self.spent["race"] += self.clock() - began
        self.stopped = self.watch.stop()

    def explore(self) -> None:
        """As many blocks of the plans as the time holds, most of what leads: without controls nothing is claimed."""
        began, race = self.clock(), self.search.race
        waiting = [entry for entry in self.entries if entry.arm not in race.entries]
        self._run(self.search.screen(waiting), self._raced)
        self.spent["race"] += self.clock() - began
        self.stopped = self.watch.stop()

    @property
    def typical_ns(self) -> float:
        """What a trial takes: as the pilot said, or more where the race has become slower."""
        return max(self.baseline.pilot.trial_ns, self.search.race.trial_ns)

    @property
    def left_ns(self) -> float:
        """Of the race, and then of the confirmation."""
        return self._end_ns - self.search.race.kept_ns - self.clock()

    def _run(self, steps: Steps[T], on_block: Callable[[Block], None]) -> T:
        """Runs the blocks of a stage; what came of it."""
        results: list[T] = []

        def stage() -> Steps[None]:
            results.append((yield from steps))

        def ran(block: Block) -> None:
            self._check_outputs(block)
            on_block(block)

        race = self.search.race
        race.begin(stage())
        drive(
            race,
            self._trials,
            rng=self.rng,
            # Decisions depend on what is stored with the trials alone, so that they can be taken again.
            clock=self.replay.decided,
            end_ns=self._end_ns,
            stop=self.watch.stop,
            ready=self._ready,
            on_block=ran,
        )
        return results[0]

    def _raced(self, block: Block) -> None:
        self._after(block, race_status(self.search.race))

    def _ready(self, arms: Sequence[str]) -> bool:
        """Makes the models of plans that did not run yet; False where there were any, which took time."""
        missing = [arm for arm in arms if arm not in self.baseline.executor.arms]
        for arm in missing:
            entry = self.search.race.entries[arm]
            model, failed = self.model_of(entry.plan)
            if model is None:
                entry.retire("not-tried", f"its model could not be made: {failed}")
            else:
                self.baseline.executor.arms[arm] = self.baseline.arm(arm, plan=entry.plan, model=model)
            if entry.plan.rewrites:
                self.pass_on()
        return not missing

    def _check_outputs(self, block: Block) -> None:
        """Checks the outputs of plans that ran for the first time; a plan with wrong ones leaves the race."""
        if any(trial.arm == BASE and isinstance(trial.outcome, Failed) for trial in block.trials):
            return
        for trial in block.trials:
            entry = self.search.race.entries.get(trial.arm)
            if entry is None or entry.outputs is not None or isinstance(trial.outcome, Failed):
                continue
            entry.outputs = self._check(entry, trial.outcome)
            if not entry.outputs.ok:
                entry.retire("wrong-output", entry.outputs.what)

    def model_of(self, plan: Plan, limit_s: float | None = None) -> tuple[Path | None, str]:
        """The model that a plan runs; None and why where it cannot be made: that costs its plan alone."""
        key = self.models.key(plan)
        failed = self.replay.no_models.get(key, "")
        try:
            if not failed:
                limit_s = self._rewriting_s(plan) if limit_s is None or self.replay.trials else limit_s
                return self.models.path(plan, limit_s), ""
        except OrtuneError as error:
            failed = self.replay.no_models[key] = error.what
            self.log.add(NO_MODEL, {"key": key, "what": failed})
        return None, failed

    def tolerance_of(self, plan: Plan) -> Tolerance | None:
        """How far a plan's outputs may be away: what the user said; else only fewer bits have a tolerance."""
        tolerance = self.baseline.options.tolerance
        if tolerance is None and any(find_rewrite(r.name).safety == "numerics" for r in plan.rewrites):
            return NUMERICS_TOLERANCE
        return tolerance

    def _rewriting_s(self, plan: Plan) -> float:
        """A share of the race for what is merely proposed; for what was asked for, all of the time that is left."""
        if self.replay.trials:
            return Limits().load_s  # trials follow that ran it: it was made in time before
        if plan.rewrites in [p.rewrites for p in (self.required, self.current) if p is not None]:
            return max(self.budget_s - self.clock() / 1e9, patience_s(self.baseline.pilot.trial_ns, 0))
        return patience_s(self.typical_ns, self.left_ns)

    def _check(self, entry: Entry, trial: Measured) -> OutputDifference:
        arm = self.baseline.executor.arms[entry.arm]
        tolerance = self.tolerance_of(entry.plan)
        difference = self.baseline.check.difference(trial, entry.arm, arm, tolerance, entry.plan.rewrites)
        # Dozens of plans with large outputs would fill a disk.
        shutil.rmtree(trial.outputs_path, ignore_errors=True)
        self.pass_on()
        return difference

    def _after(self, block: Block, sentence: str) -> None:
        """Journals a block that is new, and says where the tuning stands."""
        self.replay.block(block)
        self.watch.progress(sentence, self.clock() / 1e9, self.budget_s)

    # --- after the race

    def confirm(self) -> None:
        """Fresh blocks of default, winner and current, their number fixed beforehand; then the controls once more.

        Raises:
            MeasurementError: The machine turned bad on the way.
        """
        search = self.search
        if search.winner is not None and (search.winner.plan != search.default or search.race.with_current):
            self._confirm(search.winner)
        late = log_ratios(search.blocks, IDENTICAL, search.judgement.estimand)
        search.controls += controls.late_controls(late)
        if not measured(search.calibration, BASE):
            raise MeasurementError("every trial failed")
        if self.stopped and search.winner is None:
            raise Interrupted("stopped before any configuration was measured")

    def _confirm(self, leader: Entry) -> None:
        self.pass_on()
        began, decided = self.clock(), self.replay.decided()
        search, race, end_ns = self.search, self.search.race, self._end_ns
        race.kept_ns = 0.0
        self._see_outputs(leader)
        winner = search.winner = leader if leader.live else search.leader()
        if winner is None:
            return
        n = wanted = self._confirmation_blocks(end_ns - decided)
        per_trial = self.baseline.pilot.trial_ns
        if self.watch.stop():
            n = budget.LEAST_CONFIRM
            seconds = n * (race.references + 1) * per_trial / 1e9
            self.watch.say(f"confirming the best so far with nine blocks: about {seconds:.0f} s")
        name = winner.plan.describe()
        beyond_ns = 1e9 * (BEYOND_TIMES - 1) * self.budget_s
        self._run(
            confirm.confirm(race, winner, n, search.confirmation, beyond_ns=beyond_ns),
            lambda block: self._after(block, f"confirming on {n} fresh blocks: {name}"),
        )
        if winner.live:
            first = len(race.blocks) + len(search.confirmation)
            self._run(
                confirm.alone(race, winner, first, per_trial, search.alone),
                lambda block: self._after(block, "one process at a time, once more"),
            )
        if winner.live and not search.alone and not self.watch.stop():
            search.starts = self.baseline.starts(self.baseline.executor.arms[winner.arm])[0]
        counted = sum(not b.dropped for b in search.confirmation)
        self.stopped = self.stopped or (self.watch.stop() and counted < wanted)
        self.spent["confirm"] = self.clock() - began

    def _confirmation_blocks(self, left_ns: float) -> int:
        """As many as can tell what the race saw from nothing, and trials as long as the noise says, if time is left."""
        n, references = max(self.search.blocks_to_tell(), budget.USUAL_CONFIRM), self.search.race.references
        # Blocks before rounds: what a change brings differs from one state of the machine to the next, and only
        # further blocks meet another (a gain of 5.5 % at one clock was 0.5 % at the other).
        self.baseline.pilot.shorten((1 - ALONE_SHARE) * left_ns / (n * (references + 1) * RACE_TIMES))
        left_ns -= budget.alone_ns(self.baseline.pilot.trial_ns, left_ns)
        return min(n, budget.confirm_blocks(left_ns, self.baseline.pilot.trial_ns, references))

    def _see_outputs(self, winner: Entry) -> None:
        """A plan that ablation made has not run yet: its outputs are checked before it may win."""
        if winner.outputs is not None:
            return
        self._ready([winner.arm])
        if not winner.live:
            return
        outcomes = self._trials([winner.arm], lambda: False)
        assert outcomes is not None
        outcome = outcomes[0]
        if isinstance(outcome, Failed):
            winner.failures.append(outcome)
            winner.retire("failed", f"{outcome.reason}: {outcome.what}")
        else:
            winner.outputs = self._check(winner, outcome)
            if not winner.outputs.ok:
                winner.retire("wrong-output", winner.outputs.what)
        if self.replay.live:
            self.log.add(SEEN, {"arm": winner.arm})

    def reference_outputs(self) -> Path | None:
        """The default's outputs for the first case."""
        folder = self.baseline.check.reference() / self.baseline.work.cases[0].name
        return folder if folder.is_dir() else None


class _Trials:
    """How the race runs a group: limits by what is left, and the outputs of what has not been checked yet."""

    def __init__(self, run: Tuning) -> None:
        self._run = run

    @property
    def most_alive(self) -> int:
        """How many trials memory holds at once."""
        return self._run.baseline.executor.most_alive

    def __call__(self, arms: Sequence[str], stop: Callable[[], bool], /) -> tuple[Outcome, ...] | None:
        """The group's outcomes; None when stopped."""
        run = self._run
        entries = (run.search.race.entries.get(arm) for arm in arms)
        run.baseline.limits.expect(run.typical_ns, run.left_ns)
        keep = [e.arm for e in entries if e is not None and e.outputs is None]
        return run.baseline.executor(arms, stop, keep=keep)
