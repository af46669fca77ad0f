"""``ortune tune``: from a model to the fastest proven settings."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np

from ortune import __version__, knobs, rewrites
from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.flows.compare_options import Watcher
from ortune.flows.ground import Ground
from ortune.flows.parts import only, parts, together
from ortune.flows.proposals import Proposed, propose
from ortune.flows.replay import Replay
from ortune.flows.sides import Resolved, merge, read_plan, target_providers
from ortune.flows.tune_options import Options, parse_current
from ortune.flows.tune_result import make_result
from ortune.records import Block, Comparison, Envelope, Failed, Measured, ModelRef, OutputDifference, Plan
from ortune.search import budget, confirm, controls
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, measured
from ortune.search.figures import OBJECTIVES
from ortune.search.guards import guards
from ortune.search.race import CURRENT, Entry, Race
from ortune.stats import detect
from ortune.store.db import SessionLog
from ortune.trials.tool import ToolProcess

SPIKE_RATIO = 0.05
CONTROLLED_SCALE = 0.015  # of blocks on an ordinary machine, before it has been measured
COMBINED = 4  # the best survivors that are combined
PAYS = (
    0.5  # a setting stays when leaving it out costs at least this share of the smallest effect that matters
)


class Tuning:
    """One tuning while it runs; ``make_result`` reads its parts when it ends."""

    def __init__(
        self, options: Options, watch: Watcher, side: Resolved, scratch: Path, log: SessionLog, replay: Replay
    ) -> None:
        self.o, self.watch, self.side, self.scratch, self.log, self.replay = (
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
        self.target_plan = Plan(providers=target_providers(options.target))
        self.ground = Ground(side, options.inputs, scratch, log, watch.say)
        self.host = self.ground.host
        self.ground.executor.recorded = replay.next
        self.ground.known_differences = replay.differences
        self.calibration: list[Block] = []
        self.confirmation: list[Block] = []
        self.pruning: dict[str, tuple[str, np.ndarray]] = {}
        self.refused: tuple[str, ...] = ()
        self.promise = ""
        self.spent = {"calibration": 0, "race": 0, "confirm": 0}
        self.winner: Entry | None = None
        self.models: dict[str, Path] = {}

    def go(self) -> Envelope:
        """From the first trial to the document."""
        ground = self.ground
        ground.settle(self.o.budget_s)
        ground.pilot(self.o.objective)
        proposed, self.refused = propose(self.side, ground.work, self.o, self.host)
        entries = [self._entry(p) for p in proposed]
        if self.current is not None and self.with_current:
            # What runs today may be the best there is: it takes part like any other plan.
            entries.insert(
                0, Entry(plan=merge(self.target_plan, self.current), origin="what runs today", prior=1.0)
            )
        split = self._promise(len(entries))
        self._arms()
        self._calibrate()
        began = self.clock()
        self.race.deadline = int(self.o.budget_s * 1e9 - split.confirm_ns)
        for entry in entries[: split.plans]:
            self.race.add(entry)
        self.race.screen(list(self.race.entries.values()))
        self._late(entries[split.plans :])
        self._combine()
        self.winner = self._leader()
        if self.winner is not None:
            self.winner = self._pruned(self.winner)
        self.spent["race"] = self.clock() - began
        self._confirm()
        return self._envelope(entries)

    # --- before the race

    def _entry(self, proposed: Proposed) -> Entry:
        pinned = Plan(settings=knobs.parse_settings(list(self.o.settings)))
        if self.o.plan:
            pinned = merge(read_plan(self.o.plan), pinned)
        plan = merge(merge(self.target_plan, proposed.plan), pinned)
        return Entry(plan=plan, origin=proposed.origin, prior=proposed.prior)

    @property
    def references(self) -> int:
        """Plans that stand in every block: the default, and what the user runs today."""
        return 2 if self.with_current else 1

    def _promise(self, wanted: int) -> budget.Split:
        """Divides the budget and says what it holds before it is spent."""
        trial_ns = self.ground.trial_ns
        left = self.o.budget_s * 1e9 - self.clock()
        split = budget.divide(left, trial_ns, wanted=wanted, references=self.references)
        if split is None:
            need = budget.needed_ns(1, trial_ns, self.references) + self.clock()
            raise UsageError(
                f"one trial takes {trial_ns / 1e9:.1f} s: the {self.o.budget_s:.0f} s budget holds not even one plan",
                do=f"--budget {int(need / 1e9) + 5}s",
                code="budget",
            )
        load = self.ground.first.done.load_ns / 1e9
        confirmed = detect.smallest_effect(CONTROLLED_SCALE, budget.LEAST_CONFIRM, method="wilcoxon")
        self.promise = (
            f"one trial {trial_ns / 1e9:.2f} s (load {load:.2f}); {self.o.budget_s / 60:.3g} min hold "
            f"{int(self.o.budget_s * 1e9 / trial_ns)} trials: enough for {split.plans} of {wanted} plans, "
            f"and to confirm one to about ±{100 * confirmed:.0f} %"
        )
        if split.plans < wanted:
            all_of_them = budget.needed_ns(wanted, trial_ns, self.references) + self.clock()
            minutes = max(1, round(all_of_them / 60e9 + 0.5))
            self.promise += f"; all {wanted}: {minutes} min (--budget {minutes}m)"
        self.watch.say(self.promise)
        return split

    def _arms(self) -> None:
        ground = self.ground
        arms = {
            BASE: ground.arm(BASE),
            IDENTICAL: ground.arm(IDENTICAL),
            SPIKE: ground.arm(SPIKE, wait=SPIKE_RATIO),
        }
        if self.current is not None and self.with_current:
            arms[CURRENT] = ground.arm(CURRENT, plan=self.current, model=self._model_of(self.current))
        ground.executor.arms = arms

    def _calibrate(self) -> None:
        began = self.clock()
        references = [BASE, *([CURRENT] if self.with_current else [])]
        self.judgement, self.calibration = controls.calibrate(
            self.ground.executor,
            references,
            OBJECTIVES[self.o.objective],
            rng=self.rng,
            stop=self.watch.stop,
            on_block=lambda block: self._told(block, f"calibrating, block {block.index + 1} of nine"),
        )
        self.spent["calibration"] = self.clock() - began
        self.race = Race(
            execute=self._execute,
            announce=self._announce,
            check=self._check,
            rng=self.rng,
            clock=self.clock,
            stop=self.watch.stop,
            on_block=lambda race, block: self._told(block, self._standing(race)),
            estimand=self.judgement.estimand,
            worth=self.o.worth,
            scale=self.judgement.scale,
            deadline=0,
            with_current=self.with_current,
            first_trial_ns=self.ground.trial_ns,
        )

    # --- what the race calls

    def _execute(self, arm: str, /) -> Failed | Measured:
        entry = self.race.entries.get(arm)
        first = entry is not None and entry.outputs is None
        return self.ground.executor.trial(self.ground.executor.arms[arm], keep_outputs=first)

    def _announce(self, entry: Entry) -> None:
        self.ground.executor.arms[entry.arm] = self.ground.arm(
            entry.arm, plan=entry.plan, model=self._model_of(entry.plan)
        )

    def _model_of(self, plan: Plan) -> Path:
        """The model that a plan runs: rewritten once where the plan says so."""
        if not plan.rewrites:
            return self.side.model.path
        name = self.model_key(plan)
        if name not in self.models:
            self.watch.say(f"rewriting the model: {', '.join(r.name for r in plan.rewrites)}")
            tool = ToolProcess(runtime=self.side.runtime, folder=self.scratch)
            self.models[name] = rewrites.apply_all(
                self.side.model, plan.rewrites, self.scratch / "rewritten", tool
            )
        return self.models[name]

    def model_key(self, plan: Plan) -> str:
        """What a rewritten model is called within this run."""
        return "+".join(r.name for r in plan.rewrites)

    def reference_outputs(self) -> Path | None:
        """The default's outputs for the first case, where they are still on disk."""
        folder = Path(self.ground.first.outputs_path) / self.ground.work.cases[0].name
        return folder if folder.is_dir() else None

    def _check(self, entry: Entry, trial: Measured) -> OutputDifference | None:
        arm = self.ground.executor.arms[entry.arm]
        return self.ground.difference(trial, entry.arm, arm)

    def _told(self, block: Block, sentence: str) -> None:
        self.log.add(
            "block", {"index": block.index, "phase": block.phase, "order": [t.arm for t in block.trials]}
        )
        left = max(0.0, self.o.budget_s - self.clock() / 1e9)
        self.watch.line(f"{sentence}; {left:.0f} s left")

    def _standing(self, race: Race) -> str:
        ranked = [e for e in race.live() if e.ratios]
        if not ranked:
            return f"racing {len(race.entries)} plans"
        best = ranked[0]
        return (
            f"racing {len(ranked)} of {len(race.entries)} plans; leader {best.plan.describe()} at "
            f"{100 * np.expm1(best.middle):+.1f} % of the default's time ({len(best.ratios)} blocks, exploratory)"
        )

    # --- after the screening

    def _late(self, entries: list[Entry]) -> None:
        """Plans that the screening did not hold, while there is time for two blocks each and what follows."""
        for i in range(0, len(entries), budget.FIELD):
            group = entries[i : i + budget.FIELD]
            trials = budget.screening_trials(len(group), self.references) + 8 * (self.references + 3)
            if self.race.out_of_time(int(trials)):
                break
            self.race.screen([self.race.add(e) for e in group])

    def _combine(self) -> None:
        """Combinations of the survivors, best first, raced beside the best of them."""
        best = [e for e in self.race.live() if e.ratios and e.middle < -PAYS * np.log1p(self.o.worth)][
            :COMBINED
        ]
        if len(best) < 2:
            return
        combined: list[Entry] = []
        for size in range(2, len(best) + 1):
            for start in range(len(best) - size + 1):
                group = best[start : start + size]
                plan = together([e.plan for e in group], self.target_plan)
                if plan is not None and plan.id not in self.race.entries:
                    entry = Entry(plan=plan, origin="combination", prior=sum(e.middle for e in group))
                    combined.append(self.race.add(entry))
        field = [best[0], *combined]
        room = [e for e in field if e.live][: budget.FIELD]
        for entry in field[budget.FIELD :]:
            entry.retire("not-tried", "more combinations than one block holds")
        for _ in range(budget.ROUNDS[1]):
            if not self.race.round([e for e in room if e.live]):
                break
        finalists = sorted((e for e in room if e.live and e.ratios), key=lambda e: e.rank)[:2]
        for _ in range(budget.ROUNDS[1]):
            if not finalists or not self.race.round([e for e in finalists if e.live]):
                break

    def _leader(self) -> Entry | None:
        """The plan to confirm: the fastest that has enough blocks; None when nothing was measured."""
        ranked = [e for e in self.race.live() if len(e.ratios) >= budget.ROUNDS[0]]
        return ranked[0] if ranked else None

    def _pruned(self, winner: Entry) -> Entry:
        """Leaves each part of the winner out once; only those that pay stay."""
        mine = parts(winner.plan, self.target_plan)
        if len(mine) < 2:
            return winner
        without = {}
        for name, plan in mine:
            known = self.race.entries.get(plan.id)
            entry = (
                known
                if known is not None and known.live
                else Entry(plan=plan, origin=f"the winner without {name}")
            )
            if known is not None and not known.live:
                continue  # a part whose absence was already shown to lose
            without[name] = self.race.add(entry)
        cost = confirm.prune(self.race, winner, list(without.values()))
        keep = dict.fromkeys((name for name, _ in mine), True)
        for name, entry in without.items():
            ratios = cost.get(entry.arm, np.empty(0))
            self.pruning[name] = (entry.arm, ratios)
            if len(ratios) >= 3:
                keep[name] = float(np.median(ratios)) > PAYS * np.log1p(self.o.worth)
        if all(keep.values()):
            return winner
        if not any(keep.values()):
            best = min(without.values(), key=lambda e: e.middle)
            return best if best.ratios and best.live else winner
        plan = only(winner.plan, {name for name, kept in keep.items() if kept}, self.target_plan)
        pruned = self.race.add(Entry(plan=plan, origin="the winner without what does not pay"))
        if pruned is not winner:
            winner.retire("pruned", "some of its settings do not pay")
        return pruned

    def _confirm(self) -> None:
        """Fresh blocks of default, winner and current, their number fixed beforehand."""
        if self.winner is None or self.winner.plan == Plan():
            return
        began = self.clock()
        self._see_outputs(self.winner)
        if not self.winner.live:
            self.winner = self._leader()
            if self.winner is None:
                return
        left = self.o.budget_s * 1e9 - began
        per_trial = self.race.trial_ns
        n = budget.confirm_blocks(left, per_trial, self.references)
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
        self.spent["confirm"] = self.clock() - began

    def _see_outputs(self, winner: Entry) -> None:
        """A plan that pruning made has not run yet: its outputs are checked before it may win."""
        if winner.outputs is not None:
            return
        arm = self.ground.executor.arms[winner.arm]
        outcome = self.ground.executor.trial(arm, keep_outputs=True)
        if isinstance(outcome, Failed):
            winner.failures.append(outcome)
            winner.retire("failed", f"{outcome.reason}: {outcome.what}")
            return
        winner.outputs = self._check(winner, outcome)
        if winner.outputs is not None and not winner.outputs.ok:
            winner.retire("wrong-output", winner.outputs.what)

    def comparison(self, arm: str, base: str = BASE) -> Comparison | None:
        """The confirmed comparison of an arm, with its guards."""
        found = confirm.compare(
            self.confirmation, arm, self.judgement.estimand, base=base, delta=self.o.worth
        )
        if found is None:
            return None
        return msgspec.structs.replace(
            found, guards=guards(self.confirmation, self.o.objective, arm=arm, base=base)
        )

    def _envelope(self, entries: list[Entry]) -> Envelope:
        if self.replay.played:
            self.ground.notes.append(
                f"went on with an interrupted session: {self.replay.played} trials were played back"
            )
        if not measured(self.calibration, BASE):
            raise MeasurementError("every trial failed")
        if self.watch.stop() and self.winner is None:
            raise Interrupted("stopped before any plan was measured; nothing is claimed")
        result = make_result(self, entries)
        return Envelope(
            schema="ortune/tune/1",
            ortune=__version__,
            host=self.host,
            model=ModelRef(path=self.side.model.info.path, sha256=self.side.model.info.sha256),
            workload=self.ground.work,
            status="interrupted" if self.watch.stop() else "ok",
            verdict="faster" if result.winner != Plan() else "equivalent",
            result=result,
        )
