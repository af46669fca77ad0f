"""Models in fewer bits within one session: made, run once, and their outputs compared with those of the float model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites, targets
from ortune.engines.quantizing.outputs import QuantizedOutputs
from ortune.engines.quantizing.precision_table import within
from ortune.engines.quantizing.quantizing import (
    Inputs,
    left_in_float,
    model_bytes,
    named_operator,
    without_operator,
)
from ortune.engines.racing.plan_runs import PlanRuns
from ortune.errors import UsageError
from ortune.graph.groups import LayerGroup, layer_groups
from ortune.graph.tasks import OutputTask, output_tasks
from ortune.measuring.budget import Budget
from ortune.measuring.measuring import Measuring
from ortune.measuring.watcher import Watcher
from ortune.outputs.tolerance import Tolerance
from ortune.records import Measured, OutputDifference, Plan, PrecisionRow
from ortune.search.figures import figure
from ortune.search.phases import LEAST_LOAD_S, MAKING_SHARE, STEPS_SHARE, WHOLE_MODELS_SHARE
from ortune.search.precision import Kept, Start
from ortune.show import rewrite_words

BY_METRIC = Tolerance(text="metric>=99%", metric_of_base=0.99)
"""What outputs have to keep of a metric that was chosen for them."""
SLOWER = 1.25
"""Of the time of float: a single observation that is above it is believed, for all plans of the same speed."""
EMULATED = "emulated device"
LEAST_RIGHT = 10
"""Answers without which a metric is not chosen: of fewer one alone is more than a tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model in fewer bits, as far as it was looked at.

    Attributes:
        plan: Makes it.
        kept: Layers in float.
        outputs: Against the float model's, on the inputs kept for it; None if it does not run.
        error: The worst slice's relative L2; infinite where nothing can be compared.
        time_ns: Of a run: measured for a whole model, else as the profiles suggest; None if that is not known.
        ratio: Of a whole model against float, a single observation.
        failed: Why it does not run.
    """

    plan: Plan
    kept: Kept
    outputs: OutputDifference | None
    error: float
    time_ns: float | None = None
    ratio: float | None = None
    size_bytes: int | None = None
    failed: str = ""

    @property
    def row(self) -> PrecisionRow:
        """The row of the model in bundle and answer."""
        return PrecisionRow(
            plan=self.plan,
            within_ratio=within(self.outputs) if self.outputs is not None else None,
            calibrated=any(rewrites.find(spec.name).calibrated for spec in self.plan.rewrites[-1:]),
            ratio=self.ratio,
            size_bytes=self.size_bytes,
            outputs=self.outputs,
            why=self.failed,
        )


class Precision:
    """The models in fewer bits of one session, within shares of its budget.

    Attributes:
        tolerance: What the outputs must keep, and its ``limit`` as a number.
        rows: The whole models.
        late: A model could not be made or tested in the time that the budget gave it.
        untested: Means that the budget did not hold.
        enough_s: A budget that is expected to hold them too; 0 if it held all.
    """

    def __init__(
        self,
        baseline: Measuring,
        model: ir.Model,
        plan_runs: PlanRuns,
        inputs: Inputs,
        tolerance: Tolerance,
        watch: Watcher,
        budget: Budget,
    ) -> None:
        """Take what is measured, and with what.

        Args:
            baseline: The float model, once its pilot ran.
            model: What a quantizer sees of it.
            plan_runs: Makes those in fewer bits, and knows what an interrupted session measured.
            inputs: What they are calibrated on and compared with.
            tolerance: What the outputs must keep.
            watch: Progress and cancellation callbacks.
            budget: The budget of the session.
        """
        self.baseline, self.model, self.inputs = baseline, model, inputs
        self.plan_runs, self.replay, self.watch = plan_runs, plan_runs.replay, watch
        self.tolerance = tolerance
        self.limit = tolerance.number or tolerance.of_rows
        self.rows: list[PrecisionRow] = []
        self.late, self.untested, self.enough_s = False, list[Plan](), 0.0
        self.budget, self._began_s = budget, budget.spent_s
        self._outputs = QuantizedOutputs(baseline, plan_runs.replay, inputs.checking)
        self._runs, self._slow = False, dict[tuple[str, ...], Model]()

    @cached_property
    def groups(self) -> tuple[LayerGroup, ...]:
        """The layers of the float model."""
        return layer_groups(self.model)

    def judge_by_task(self) -> OutputTask | None:
        """Judge by what outputs are for from now on, where graph and data tell it; what was chosen."""
        choices = output_tasks(self.model)
        name = self.replay.once("task", str, lambda: self._fitting([choice.metric for choice in choices]))
        if not name:
            return None
        self.baseline.comparer.metric = name
        self.tolerance, self.limit = BY_METRIC, BY_METRIC.of_rows
        return next(choice for choice in choices if choice.metric == name)

    def _fitting(self, metrics: Sequence[str]) -> str:
        """The first metric that the float model's outputs can be measured by; "" for none, or no time to run it."""
        comparer, refs = self.baseline.comparer, self.inputs.checking
        if not self.holds(self.comparison_s):
            return ""
        for metric in dict.fromkeys(metrics):
            try:
                scored = comparer.measured_by(metric, self._outputs.reference, refs)
            except UsageError:  # the outputs are of another kind after all
                continue
            if scored.n_right >= LEAST_RIGHT:
                return metric
        return ""

    def left_s(self, share: float) -> float:
        """Return the seconds until a share of the time after the pilot is over; negative after that."""
        # The share counts from the end of the pilot: how long that took depends on the model, not on the
        # budget.
        return self._began_s + share * (self.budget.total_s - self._began_s) - self.budget.spent_s

    def spent(self, share: float) -> bool:
        """Return whether this share of the time after the pilot is over, or the session was stopped."""
        return self.watch.stop() or self.left_s(share) < 0

    @property
    def comparison_s(self) -> float:
        """Seconds that one model's outputs take: one process with a run of each input that models are compared on."""
        return self.outputs_s(len(self.inputs.checking), self.baseline.pilot.input_ns)

    def outputs_s(self, n_inputs: int, each_ns: float) -> float:
        """Return seconds of a process that runs so many inputs once each."""
        return (self.baseline.pilot.start_ns + n_inputs * each_ns) / 1e9

    def holds(self, step_s: float) -> bool:
        """Return whether the budget holds a step of so many seconds."""
        return self.budget.left_s >= step_s

    @property
    def holds_step(self) -> bool:
        """Whether another step towards float may begin, and ends within the budget."""
        return not self.spent(STEPS_SHARE) and self.holds(self.comparison_s)

    def whole_models(self, plans: Sequence[Plan]) -> list[Model]:
        """Each means for the whole model, tried once; those that run, the fastest first."""
        running: list[Model] = []
        waiting = list(plans)
        while waiting:
            plan = waiting.pop(0)
            # Until a method runs, there is nothing to compare, so the whole budget is for the methods.
            over = self.rows and (self.spent(WHOLE_MODELS_SHARE) if self._runs else self.watch.stop())
            # The first model that runs is compared with outputs of the float model, which has to run for these.
            whole_s = self.baseline.pilot.first.elapsed_ns / 1e9 + self.comparison_s * (
                1 if self._runs else 2
            )
            if over or not self.holds(max(whole_s, self._each_s(whole_s))):
                self._end([plan, *waiting], whole_s)
                break
            if (slower := self._slow.get(_speed(plan))) is not None:
                self.rows.append(_untested(plan, f"{method(slower.plan)} is slower than float"))
                continue
            self.watch.line(f"testing the whole model: {method(plan)}")
            model = self._whole(plan)
            self.rows.append(model.row)
            if model.ratio is not None and model.ratio > SLOWER:
                self._slow.setdefault(_speed(plan), model)
            if model.failed and plan.rewrites and not plan.providers:
                left = left_in_float(plan.rewrites[-1])
                # An error that names an operator is tried again without it, before the next means.
                kind = named_operator(self.baseline.side.model.ir, model.failed, left)
                again = without_operator(plan, kind) if kind else None
                waiting = [again, *waiting] if again is not None else waiting
            if not model.failed:
                self._runs = True
                running.append(model)
        return sorted(running, key=lambda model: model.time_ns or math.inf)

    def _each_s(self, whole_s: float) -> float:
        """Return the mean seconds of the methods so far, ``whole_s`` before the first."""
        return (self.budget.spent_s - self._began_s) / len(self.rows) if self.rows else whole_s

    def _end(self, untried: Sequence[Plan], whole_s: float) -> None:
        """No further means is tried: says so of each, and how long a budget would hold them."""
        began_s, n_tried, each_s = self._began_s, len(self.rows), self._each_s(whole_s)
        self.late = self.late or not n_tried
        self.untested += untried
        needed_s = began_s + (n_tried + len(untried)) * each_s / WHOLE_MODELS_SHARE
        self.enough_s = max(needed_s, self.budget.total_s + len(untried) * each_s)
        self.rows += [_untested(plan, "no time left") for plan in untried]

    def leave_out(self, plans: Sequence[Plan]) -> None:
        """Says of methods that there was no need to test them."""
        self.rows += [
            _untested(plan, "worse in an earlier model with the same kinds of layers") for plan in plans
        ]

    def _whole(self, plan: Plan) -> Model:
        baseline = self.baseline
        path, failed = self.made(plan)
        if path is None:
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=failed)
        arm = baseline.arm(f"bits-{plan.id}", plan=plan, model=path)
        outcome = baseline.executor.trial(arm, runs=baseline.pilot.look_runs)
        if not isinstance(outcome, Measured):
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=outcome.what)
        if plan.providers and targets.of(plan).emulated(outcome):
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=EMULATED)
        baseline.live_with(outcome)
        difference = self.outputs_of(plan)
        before, after = figure(baseline.pilot.first, "median"), figure(outcome, "median")
        return Model(
            plan=plan, kept=frozenset(), outputs=difference, error=difference.worst_slice_l2, time_ns=after,
            ratio=after / before if before and after else None, size_bytes=self._size(plan, path),
            failed="" if math.isfinite(difference.worst_slice_l2) else difference.what,
        )  # fmt: skip

    def _size(self, plan: Plan, path: Path) -> int:
        return model_bytes(path) if plan.rewrites else self.baseline.side.model.size_bytes

    def made(self, plan: Plan) -> tuple[Path | None, str]:
        """Return the file of a plan's model; None and why where it cannot be made."""
        limit_s, began_s = max(LEAST_LOAD_S, MAKING_SHARE * self.budget.left_s), self.budget.spent_s
        path, failed = self.plan_runs.model_of(plan, limit_s)
        # What it took is known to the next decision, whatever came of it.
        self.replay.pass_on()
        self.late = self.late or (path is None and self.budget.spent_s - began_s >= limit_s)
        return path, failed

    def start(self, model: Model) -> Start:
        """Return a whole model as a walk may begin from it."""
        beyond = self.tolerance.times(model.outputs) if model.outputs is not None else math.inf
        kind, ratio = f"{model.plan.rewrites[-1].name} {targets.of(model.plan).name}", model.ratio
        return Start(kind=kind, beyond=beyond, error=model.error, ratio=1.0 if ratio is None else ratio)

    def outputs_of(self, plan: Plan) -> OutputDifference:
        """Return a plan's outputs against those of the float model, on the inputs kept for it."""
        return self._outputs.difference(plan, lambda: self.made(plan), self.tolerance)

    @property
    def reference_ns(self) -> int:
        """What the float model took for the inputs that models are compared on; 0 if it did not run."""
        return self._outputs.reference_ns

    def compared(self, plan: Plan) -> Model:
        """Return a plan's model and its outputs; it is not timed."""
        path, failed = self.made(plan)
        difference = self.outputs_of(plan)
        return Model(
            plan=plan, kept=frozenset(), outputs=difference, error=difference.worst_slice_l2,
            size_bytes=None if path is None else model_bytes(path), failed=failed,
        )  # fmt: skip

    def without_vnni(self, plan: Plan, limit_s: float) -> OutputDifference:
        """Return a plan's outputs as a processor computes them on which sums of two products are of 16 bits."""
        self.watch.line("emulating a processor without VNNI")
        return self._outputs.without_vnni(plan, lambda: self.made(plan), self.tolerance, limit_s)


def _untested(plan: Plan, why: str) -> PrecisionRow:
    return PrecisionRow(plan=plan, within_ratio=None, why=why, tested=False)


def _speed(plan: Plan) -> tuple[str, ...]:
    """Return what plans of about the same speed have in common: the others of their parameters change the error."""
    where = Plan(providers=plan.providers, settings=plan.settings if plan.providers else {}).id
    if not plan.rewrites:
        return (where,)
    spec = plan.rewrites[-1]
    return (
        where,
        spec.name,
        *(spec.params.get(name, "") for name in ("operators", "weights", "bits", "products", "leave")),
    )


def method(plan: Plan) -> str:
    """Return the last rewrite of a plan, and the provider if it is not the CPU's."""
    where = Plan(providers=plan.providers, settings=plan.settings if plan.providers else {})
    parts = [*map(rewrite_words.spec, plan.rewrites[-1:]), *([where.describe()] if plan.providers else [])]
    return " on ".join(parts)
