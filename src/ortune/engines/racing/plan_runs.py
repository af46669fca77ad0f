"""Runs the plans of a race in processes, after creating their models, and checks their outputs after the first run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ortune.catalogue import knobs
from ortune.errors import OrtuneError
from ortune.measuring import output_check
from ortune.measuring.budget import Budget
from ortune.measuring.limits import patience_s
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import NO_MODEL, Replay
from ortune.measuring.rewriting import ModelVariants
from ortune.outputs.tolerance import Tolerance
from ortune.records import Block, Failed, Measured, Outcome, OutputDifference, Plan
from ortune.rewrites import find as find_rewrite
from ortune.search.blocks import BASE
from ortune.search.halving import Entry
from ortune.search.reasons import Reason
from ortune.search.state import Search
from ortune.targets.task import Limits

NUMERICS_TOLERANCE = Tolerance(text="0.05", number=0.05)
"""Relative L2 tolerance for plans of lower precision, unless ``--tolerance`` sets another."""


def lowers_precision(plan: Plan) -> bool:
    """Return whether a plan computes in lower precision than the model, by a rewrite or by a provider's setting."""
    settings = ((knobs.find(name), value) for name, value in plan.settings.items())
    return any(find_rewrite(spec.name).safety == "numerics" for spec in plan.rewrites) or any(
        knob.strict and not knob.is_strict(value) for knob, value in settings
    )


class PlanRuns:
    """Runs the plans of a race, as the executor of its blocks.

    Args:
        baseline: The default, and the means to run plans.
        search: The search with the plans.
        models: Makes the models of plans with rewrites.
        replay: Measurements of an interrupted session.
        budget: Returns the budget of the race.
        whole_budget: The budget of the command.
    """

    def __init__(
        self,
        baseline: Measuring,
        search: Search,
        models: ModelVariants,
        replay: Replay,
        *,
        budget: Callable[[], Budget],
        whole_budget: Budget,
    ) -> None:
        self.baseline, self.search, self.models, self.replay = baseline, search, models, replay
        self._budget, self._whole_budget = budget, whole_budget

    @property
    def most_alive(self) -> int:
        """Number of trials that fit in memory at once."""
        return self.baseline.executor.most_alive

    def __call__(self, arms: Sequence[str], stop: Callable[[], bool], /) -> tuple[Outcome, ...] | None:
        """Run a group of arms and return the outcomes; None if stopped.

        Outputs are kept for plans whose outputs are not checked yet.
        """
        entries = (self.search.race.entries.get(arm) for arm in arms)
        self.baseline.limits.expect(self.typical_ns, self._budget().left_ns)
        keep = [e.arm for e in entries if e is not None and e.outputs is None]
        return self.baseline.executor(arms, stop, keep=keep)

    @property
    def typical_ns(self) -> float:
        """Expected time of a trial in nanoseconds: the pilot's, or the race's if that is longer."""
        return max(self.baseline.pilot.trial_ns, self.search.race.trial_ns)

    def create_models(self, arms: Sequence[str]) -> bool:
        """Create the models of plans that did not run yet; return whether there was nothing to create."""
        missing = [arm for arm in arms if arm not in self.baseline.executor.arms]
        for arm in missing:
            entry = self.search.race.entries[arm]
            model, failed = self.model_of(entry.plan)
            if model is None:
                entry.eliminate("not-tried", Reason(code="not-rewritten", text=failed))
            else:
                self.baseline.executor.arms[arm] = self.baseline.arm(arm, plan=entry.plan, model=model)
            if entry.plan.rewrites:
                self.replay.record_other_work()
        return not missing

    def check_outputs(self, block: Block) -> None:
        """Check the outputs of plans that ran for the first time; plans with wrong outputs leave the race."""
        if any(trial.arm == BASE and isinstance(trial.outcome, Failed) for trial in block.trials):
            return
        for trial in block.trials:
            entry = self.search.race.entries.get(trial.arm)
            if entry is None or entry.outputs is not None or isinstance(trial.outcome, Failed):
                continue
            entry.outputs = self.check(entry, trial.outcome)
            if not entry.outputs.ok:
                entry.eliminate("wrong-output", Reason(code="wrong-outputs", text=entry.outputs.what))

    def check(self, entry: Entry, trial: Measured) -> OutputDifference:
        """Compare a plan's outputs with the default's, and delete the plan's."""
        arm = self.baseline.executor.arms[entry.arm]
        tolerance = self.tolerance_of(entry.plan)
        difference = output_check.difference(
            self.baseline, trial, entry.arm, arm, tolerance, entry.plan.rewrites
        )
        # Dozens of plans with large outputs would fill a disk.
        shutil.rmtree(trial.outputs_path, ignore_errors=True)
        self.replay.record_other_work()
        return difference

    def model_of(self, plan: Plan, limit_s: float | None = None) -> tuple[Path | None, str]:
        """Return the model of a plan and ""; or None and the reason if the model cannot be created."""
        key = self.models.key(plan)
        failed = self.replay.no_models.get(key, "")
        try:
            if not failed:
                # The interrupted session created the model in time, whatever the machine's load is now.
                limit_s = self.rewriting_s(plan) if limit_s is None or self.replay.trials else limit_s
                return self.models.path(plan, limit_s), ""
        except OrtuneError as error:
            failed = self.replay.no_models[key] = error.what
            self.baseline.log.add(NO_MODEL, {"key": key, "what": failed})
        return None, failed

    def tolerance_of(self, plan: Plan) -> Tolerance | None:
        """Return the user's tolerance of outputs, or a default for a plan of lower precision; None for other plans."""
        tolerance = self.baseline.options.tolerance
        if tolerance is None and lowers_precision(plan):
            return NUMERICS_TOLERANCE
        return tolerance

    def rewriting_s(self, plan: Plan) -> float:
        """Return the time limit of a rewrite in seconds: all time left for requested plans, less for others."""
        if self.replay.trials:
            return Limits().load_s  # stored trials ran the model, so it was created in time
        if plan.rewrites in [
            p.rewrites for p in (self.search.required, self.search.current) if p is not None
        ]:
            return max(self._whole_budget.left_s, patience_s(self.baseline.pilot.trial_ns, 0))
        return patience_s(self.typical_ns, self._budget().left_ns)
