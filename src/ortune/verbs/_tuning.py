"""``ortune tune``: from a model to the fastest proven settings."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np

from ortune import __version__, rewrites
from ortune.errors import Interrupted, MeasurementError, OrtuneError, UsageError
from ortune.knobs import facts
from ortune.knobs.knob import Objective
from ortune.knobs.propose import FIRST
from ortune.profiling.headroom import headroom_of
from ortune.records import (
    Block,
    Comparison,
    Envelope,
    Failed,
    Headroom,
    Measured,
    ModelRef,
    Outcome,
    OutputDifference,
    Plan,
    TuneResult,
    VerdictName,
)
from ortune.search import budget, confirm, controls
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, log_ratios, measured
from ortune.search.figures import OBJECTIVES, TIMES, figure, without_latencies
from ortune.search.guards import broken, guards
from ortune.search.plan_edits import changed, merge
from ortune.search.promise import promise, standing
from ortune.search.proposals import Proposed, propose
from ortune.search.race import CURRENT, Entry, Race
from ortune.search.refine import PAYS, Costs, ablate, combine, explore, try_rest
from ortune.stats import detect
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.trials.baseline import Baseline, patience_s
from ortune.trials.replay import NO_MODEL, SEEN, Replay
from ortune.trials.rewriting import Models
from ortune.trials.sides import Resolved, require_unchanged
from ortune.trials.watcher import Watcher
from ortune.verbs._tune_arguments import check_allowed, parse_current
from ortune.verbs._tune_result import make_result

if TYPE_CHECKING:
    from ortune.verbs.tune import Options

LEAST_SHARE = 0.55
"""Of the time, for calibration, first blocks and confirmation together: the rest is for what the first blocks find."""


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
        entries = (run.race.entries.get(arm) for arm in arms)
        run.baseline.expect(run.typical_ns, run.left_ns)
        keep = [e.arm for e in entries if e is not None and e.outputs is None]
        return run.baseline.executor(arms, stop, keep=keep)


class Tuning:
    """One tuning while it runs; ``make_result`` reads its parts when it ends."""

    def __init__(
        self,
        options: Options,
        watch: Watcher,
        side: Resolved,
        scratch: Path,
        log: SessionLog,
        replay: Replay,
        machine: Machine,
    ) -> None:
        self.options, self.watch, self.side, self.scratch, self.log, self.replay = (
            options,
            watch,
            side,
            scratch,
            log,
            replay,
        )
        self.clock = replay.clock
        self.rng = random.Random(f"tune-{options.seed}")
        self.current = parse_current(options.current)
        # The default *is* what runs today: nothing further to race.
        self.with_current = self.current is not None and self.current != Plan()
        self.pinned = [rewrites.parse(text) for text in options.rewrite]
        check_allowed(options.allow)
        self.required = options.common
        self.baseline = Baseline(side, options.feeds, scratch, log, watch.say, machine)
        self.host = self.baseline.host
        self.baseline.executor.recorded = replay.next
        self.baseline.executor.ended = replay.ended
        self.baseline.known_differences = replay.differences
        self.calibration: list[Block] = []
        self.confirmation: list[Block] = []
        self.alone: list[Block] = []
        self._asked: dict[str, int] = {}  # blocks of the calibration that a plan was put into
        self._asked_blocks = 0
        self.starts: list[Measured] = []  # of the winner, where no time was left for more of it alone
        self.ablation: dict[str, Costs] = {}
        self.refused: tuple[str, ...] = ()
        self.promise = ""
        self.spent = {"calibration": 0, "race": 0, "confirm": 0}
        self.winner: Entry | None = None
        self.models = Models(side, scratch, tuple(options.feeds.custom_ops), watch.say)
        self.headroom: Headroom | None = None
        self.stopped = False  # by hand, with something left undone

    def go(self) -> Envelope:
        """From the first trial to the document."""
        baseline = self.baseline
        baseline.settle(self.options.budget_s)
        baseline.pilot(self.options.objective)
        self._look_for_headroom()
        objective = cast("Objective", self.options.objective)
        model, rewritable = self.side.model.ir, self.side.model.info.format != "ort"
        proposed, self.refused = propose(
            facts.facts_of(model),
            rewrites.proposals(model, self.options.allow, workload=baseline.work, objective=objective)
            if rewritable
            else [],
            baseline.work,
            self.host,
            ort_version=self.side.runtime.ort_version,
            objective=objective,
            allow=self.options.allow,
            providers=self.required.provider_names,
            allocators=self.baseline.machine.allocators.keys(),
            as_asked=bool(self.options.set or self.options.plan or self.options.rewrite),
        )
        pinned = tuple(rewrites.completed(spec, self.side.model.ir, baseline.work) for spec in self.pinned)
        # What the user asks for is part of every plan that is tried, and never ablated.
        self.required = merge(Plan(rewrites=pinned, settings=rewrites.settings_for(pinned)), self.required)
        entries = self._entries(proposed)
        split = self._promise(entries)
        self._arms()
        self.race.deadline = int(self.options.budget_s * 1e9 - split.confirm_ns)
        for entry in entries[: split.plans]:
            self.race.add(entry)
        self._calibrate()
        began = self.clock()
        self.race.screen(list(self.race.entries.values()))
        try_rest(self.race, entries[split.plans :])
        leader = self._leader()
        if leader is not None:
            leader = combine(self.race, leader, self.required)
            leader = explore(self.race, leader, self.required, self.host.effective_cpus)
        self.winner = leader if leader is not None and leader.live else self._leader()
        if self.winner is not None:
            self.winner, self.ablation = ablate(self.race, self.winner, self.required)
        self._default_runs_too()
        self.spent["race"] = self.clock() - began
        self.stopped = self.watch.stop()
        self._confirm()
        everything = [*self.calibration, *self.race.blocks, *self.confirmation]
        self.controls += controls.late_controls(log_ratios(everything, IDENTICAL, self.judgement.estimand))
        require_unchanged(self.side)
        return self._envelope(entries)

    # --- before the race

    def _look_for_headroom(self) -> None:
        """One short profile of the default; a session that goes on has it in its journal."""
        if self.replay.headroom is not None:
            self.headroom = self.replay.headroom
            return
        latency = figure(self.baseline.first, "median")
        if latency is not None and self.options.objective in TIMES:
            self.headroom = headroom_of(self.baseline, latency, self.options.folder)
        if self.headroom is not None:
            self.log.add("headroom", self.headroom)
            self.watch.say(self.headroom.sentence)

    def _entries(self, proposed: list[Proposed]) -> list[Entry]:
        """What is proposed, each with what the user asked for in it; what then says the same twice, once."""
        entries: dict[str, Entry] = {}
        if self.current is not None and self.with_current:
            plan = merge(self.required, self.current)
            entries[plan.id] = Entry(plan=plan, origin="what runs today", prior=1.0)
        for each in proposed:
            made = changed(each.plan, self.required, self.required)
            if made is None:
                self.refused += (f"{each.plan.describe()}: cannot stand beside what was asked for",)
            elif made.id not in entries and (made != self.required or each.plan == Plan()):
                entries[made.id] = Entry(plan=made, origin=each.origin, prior=each.prior)
        return list(entries.values())

    @property
    def references(self) -> int:
        """Plans that stand in every block: the default, and what the user runs today."""
        return 2 if self.with_current else 1

    def _promise(self, entries: list[Entry]) -> budget.Split:
        """Divides the budget and says what it holds before it is spent."""
        # By the clock of what was measured, so that a session that goes on decides the same.
        left = self.options.budget_s * 1e9 - self.replay.decided()
        wanted = len(entries)
        first = sum(e.prior >= FIRST for e in entries)
        # Shorter trials rather than fewer plans: what is not tried cannot win.
        least = budget.SPARE * budget.least_trials(first, self.references)
        self.baseline.shorten(LEAST_SHARE * left / least)
        trial_ns = self.baseline.trial_ns
        split = self.replay.split or budget.divide(
            left, trial_ns, wanted=wanted, references=self.references
        )  # as the interrupted session decided, where there was one
        if split is None:
            need = budget.needed_ns(1, trial_ns, self.references) + self.clock()
            raise UsageError(
                f"one trial takes {trial_ns / 1e9:.1f} s: "
                f"the {self.options.budget_s:.0f} s budget holds not even one plan",
                do=f"--budget {int(need / 1e9) + 5}s",
                code="budget",
            )
        if self.replay.split is None:
            self.log.add("split", split)
        self.promise = promise(
            split,
            wanted,
            budget_s=self.options.budget_s,
            spent_ns=self.clock(),
            trial_ns=trial_ns,
            load_ns=self.baseline.first.done.load_ns,
            references=self.references,
        )
        self.watch.say(self.promise)
        self.race = Race(
            execute=_Trials(self),
            announce=self._announce,
            check=self._check,
            rng=self.rng,
            # Decisions depend on what is stored with the trials alone, so that they can be taken again.
            clock=self.replay.decided,
            stop=self.watch.stop,
            on_block=lambda race, block: self._told(block, standing(race)),
            worth=self.options.worth_ratio,
            objective=self.options.objective,
            allowed=tuple(self.options.allow),
            deadline=0,
            with_current=self.with_current,
            first_trial_ns=trial_ns,
        )
        return split

    def _arms(self) -> None:
        baseline = self.baseline
        arms = {
            BASE: baseline.arm(BASE),
            IDENTICAL: baseline.arm(IDENTICAL),
            SPIKE: baseline.arm(SPIKE, wait=controls.SPIKE_RATIO),
        }
        if self.current is not None and self.with_current:
            model = self.models.path(self.current, self._rewriting_s(self.current))
            arms[CURRENT] = baseline.arm(CURRENT, plan=self.current, model=model)
        baseline.executor.arms = arms

    def _calibrate(self) -> None:
        """The controls, and beside them the first blocks of the plans to try."""
        began = self.clock()
        references = [BASE, *([CURRENT] if self.with_current else [])]

        before = [self.replay.decided()]

        def on_block(block: Block) -> None:
            self.race.see(block)
            self.race.spent(block, self.replay.decided() - before[-1])
            before.append(self.replay.decided())
            self._told(block, f"calibrating, block {block.index + 1} of nine")

        self.judgement, blocks = controls.calibrate(
            self.race.execute,
            references,
            OBJECTIVES[self.options.objective],
            rng=self.rng,
            stop=self.watch.stop,
            on_block=on_block,
            beside=self._beside,
        )
        self.calibration = [without_latencies(block) for block in blocks]
        self.controls = list(self.judgement.controls)
        self.spent["calibration"] = self.clock() - began
        self.race.estimand, self.race.scale = self.judgement.estimand, self.judgement.scale
        self.baseline.retime(self.judgement, measured(blocks, BASE))
        self.race.earlier = self.calibration
        for block in self.calibration:
            self.race.rate(block)

    def _beside(self) -> list[str]:
        """Plans that take their turns in the calibration's next block: those that ran least."""
        self._asked_blocks += 1
        # A calibration that is repeated asks for all of them again.
        most = budget.ROUNDS[0] * -(-self._asked_blocks // controls.CALIBRATION_BLOCKS)
        room = max(1, self.baseline.executor.most_alive - self.references - 2)
        live = [e for e in self.race.entries.values() if e.live and self._asked.get(e.arm, 0) < most]
        self.rng.shuffle(live)
        chosen = sorted(live, key=lambda e: self._asked.get(e.arm, 0))[: min(room, budget.BESIDE)]
        for entry in chosen:
            self._asked[entry.arm] = self._asked.get(entry.arm, 0) + 1
        return [entry.arm for entry in chosen]

    # --- what the race calls

    @property
    def typical_ns(self) -> float:
        """What a trial takes: as the pilot said, or more where the race has become slower."""
        return max(self.baseline.trial_ns, self.race.trial_ns)

    @property
    def left_ns(self) -> float:
        """Of the race, and then of the confirmation."""
        return self.race.deadline - self.clock()

    def _announce(self, entry: Entry) -> None:
        key = self.models.key(entry.plan)
        failed = self.replay.no_models.get(key, "")
        try:
            model = self.side.runs if failed else self.models.path(entry.plan, self._rewriting_s(entry.plan))
        except OrtuneError as error:
            # One rewrite that fails costs its plan alone; the others go on.
            failed = self.replay.no_models[key] = error.what
            self.log.add(NO_MODEL, {"key": key, "what": failed})
        if failed:
            entry.retire("not-tried", f"its model could not be made: {failed}")
            return
        self.baseline.executor.arms[entry.arm] = self.baseline.arm(entry.arm, plan=entry.plan, model=model)

    def _rewriting_s(self, plan: Plan) -> float:
        """A share of the race for what is merely proposed; for what was asked for, all of the time that is left."""
        if self.replay.trials:
            return Limits().load_s  # trials follow that ran it: it was made in time before
        if plan.rewrites in [p.rewrites for p in (self.required, self.current) if p is not None]:
            return max(self.options.budget_s - self.clock() / 1e9, patience_s(self.baseline.trial_ns, 0))
        return patience_s(self.typical_ns, self.left_ns)

    def reference_outputs(self) -> Path | None:
        """The default's outputs for the first case."""
        folder = self.baseline.reference() / self.baseline.work.cases[0].name
        return folder if folder.is_dir() else None

    def _check(self, entry: Entry, trial: Measured) -> OutputDifference | None:
        arm = self.baseline.executor.arms[entry.arm]
        found = self.baseline.difference(trial, entry.arm, arm)
        # Dozens of plans with large outputs would fill a disk.
        shutil.rmtree(trial.outputs_path, ignore_errors=True)
        return found

    def _told(self, block: Block, sentence: str) -> None:
        if self.replay.live:
            self.log.add(
                "block",
                {"index": block.index, "phase": block.phase, "order": [t.arm for t in block.trials]},
            )
        left = max(0.0, self.options.budget_s - self.clock() / 1e9)
        self.watch.line(f"{sentence}; {left:.0f} s left")

    # --- after the screening

    def _leader(self) -> Entry | None:
        """The plan to confirm: the fastest that has enough blocks; None when nothing was measured."""
        enough = (e for e in self.race.live() if len(e.ratios) >= budget.ROUNDS[0])
        ranked = [e for e in enough if not self.race.refuse(e)]
        return ranked[0] if ranked else None

    def _default_runs_too(self) -> None:
        """Where something else runs today, the untouched default may be the plan to change to."""
        floor = -PAYS * np.log1p(self.options.worth_ratio)
        better = self.winner is not None and self.winner.middle < floor
        worse = broken(self.race.seen, self.options.objective, self.options.allow, arm=BASE, base=CURRENT)
        if self.with_current and self.required == Plan() and not better and not worse:
            self.winner = self.race.add(Entry(plan=Plan(), origin="the untouched default"))

    def _confirm(self) -> None:
        """Fresh blocks of default, winner and current, their number fixed beforehand."""
        if self.winner is None or (self.winner.plan == Plan() and not self.with_current):
            return
        began = self.clock()
        decided = self.replay.decided()
        self.race.deadline = int(self.options.budget_s * 1e9)
        self._see_outputs(self.winner)
        if not self.winner.live:
            self.winner = self._leader()
            if self.winner is None:
                return
        left = self.options.budget_s * 1e9 - decided
        n = wanted = self._confirmation_blocks(left)
        per_trial = self.baseline.trial_ns
        if self.watch.stop():
            n = budget.LEAST_CONFIRM
            seconds = n * (self.references + 1) * per_trial / 1e9
            self.watch.say(f"confirming the best so far with nine blocks: about {seconds:.0f} s")
        self.confirmation = confirm.confirm(
            self.race,
            self.winner,
            n,
            lambda block, total: self._told(
                block,
                f"confirming {self.winner.plan.describe() if self.winner else ''} on {total} fresh blocks",
            ),
        )
        if self.winner.live:
            self.alone = confirm.alone(
                self.race,
                self.winner,
                len(self.race.blocks) + len(self.confirmation),
                self.options.budget_s * 1e9 - self.replay.decided(),
                self.baseline.trial_ns,
                lambda block: self._told(block, "one process at a time, once more"),
            )
        if self.winner.live and not self.alone and not self.watch.stop():
            self.starts = self.baseline.starts(self.baseline.executor.arms[self.winner.arm])[0]
        counted = sum(not b.dropped for b in self.confirmation)
        self.stopped = self.stopped or (self.watch.stop() and counted < wanted)
        self.spent["confirm"] = self.clock() - began

    def _confirmation_blocks(self, left_ns: float) -> int:
        """As many as can tell what the race saw from nothing, and trials as long as the noise says, if time is left."""
        assert self.winner is not None
        effect = max(abs(float(np.expm1(self.winner.middle))), self.options.worth_ratio) / 2
        needed = detect.blocks_needed(
            self.judgement.scale, effect, method="wilcoxon", most=budget.MOST_CONFIRM
        )
        n = max(budget.LEAST_CONFIRM, needed or budget.MOST_CONFIRM)
        self.baseline.shorten((1 - budget.ALONE_SHARE) * left_ns / (n * (self.references + 1) * budget.SPARE))
        left_ns -= budget.alone_ns(self.baseline.trial_ns, left_ns)
        return min(n, budget.confirm_blocks(left_ns, self.baseline.trial_ns, self.references))

    def _see_outputs(self, winner: Entry) -> None:
        """A plan that ablation made has not run yet: its outputs are checked before it may win."""
        if winner.outputs is not None:
            return
        found = self.race.execute([winner.arm], lambda: False)
        assert found is not None
        outcome = found[0]
        if isinstance(outcome, Failed):
            winner.failures.append(outcome)
            winner.retire("failed", f"{outcome.reason}: {outcome.what}")
        else:
            winner.outputs = self._check(winner, outcome)
            if winner.outputs is not None and not winner.outputs.ok:
                winner.retire("wrong-output", winner.outputs.what)
        if self.replay.live:
            self.log.add(SEEN, {"arm": winner.arm})

    def comparison(self, arm: str, base: str = BASE) -> Comparison | None:
        """The confirmed comparison of an arm, with its guards."""
        # Against the default and against today are two claims: each at half the error (Holm's first step).
        level = 0.975 if self.with_current else 0.95
        found = confirm.compare(
            self.confirmation,
            arm,
            self.judgement.estimand,
            base=base,
            level=level,
            delta=self.options.worth_ratio,
        )
        if found is None:
            return None
        return msgspec.structs.replace(
            found, guards=guards(self.confirmation, self.options.objective, arm=arm, base=base)
        )

    def _verdict(self, result: TuneResult) -> VerdictName:
        """What the deciding comparison says; a race without a challenger proves nothing either way."""
        if self.winner is None:
            return "inconclusive"
        found = self.comparison(self.winner.arm, CURRENT if self.with_current else BASE)
        if found is None:
            return "inconclusive"
        # Faster, and not shipped: a guard fell, or it is less than what is worth a change.
        return "inconclusive" if found.verdict == "faster" and not result.changes else found.verdict

    def _envelope(self, entries: list[Entry]) -> Envelope:
        if self.replay.played:
            self.baseline.notes.append(
                f"went on with an interrupted session: {self.replay.played} trials were played back"
            )
        if not measured(self.calibration, BASE):
            raise MeasurementError("every trial failed")
        if self.stopped and self.winner is None:
            raise Interrupted("stopped before any plan was measured; nothing is claimed")
        result = make_result(self, entries)
        return Envelope(
            schema="ortune/tune/1",
            ortune=__version__,
            host=self.host,
            model=ModelRef(path=self.side.model.info.path, sha256=self.side.model.info.sha256),
            workload=self.baseline.work,
            status="interrupted" if self.stopped else "ok",
            verdict=self._verdict(result),
            result=result,
        )
