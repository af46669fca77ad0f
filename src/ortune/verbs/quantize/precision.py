"""Creates the quantized models of a session, runs them once, and compares their outputs with the float model's."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites, targets
from ortune.engines.quantizing.inputs import QuantizationInputs
from ortune.engines.quantizing.outputs import QuantizedOutputs
from ortune.engines.quantizing.precision_table import error_class
from ortune.engines.quantizing.quantizing import (
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
from ortune.records import NO_TIME, Measured, OutputDifference, Plan, PrecisionRow
from ortune.search.figures import figure
from ortune.search.phases import LEAST_LOAD_S, MAKING_SHARE, STEPS_SHARE, WHOLE_MODELS_SHARE
from ortune.search.precision import LEAST_SAVED, Kept, Start
from ortune.show import rewrite_words
from ortune.verbs.quantize import steps_words

BY_METRIC = Tolerance(text="metric>=99%", metric_of_base=0.99)
"""Tolerance of the outputs if the metric was chosen automatically."""
SLOWER = 1.25
"""Time relative to float above which one observation suffices to skip all plans of similar speed."""
EMULATED = "emulated device"
LEAST_RIGHT = 10
"""Minimum number of expected items (rows, boxes, symbols) for choosing a metric; among fewer, one error is too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedModel:
    """One quantized model and its measurements so far.

    Attributes:
        plan: The plan that creates it.
        kept: Names of the layers kept in float.
        outputs: Difference from the float model's outputs on held-out inputs; None if the model does not run.
        error: Relative L2 error of the worst slice; infinite if the outputs cannot be compared.
        time_ns: Time per run: measured for a fully quantized model, else predicted from profiles; None if unknown.
        ratio: Time of a fully quantized model relative to float, a single observation; None if the model was not timed.
        failed: The reason that the model does not run; "" if it runs.
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
        """The model's row in the bundle and in the result."""
        return PrecisionRow(
            plan=self.plan,
            within_ratio=error_class(self.outputs) if self.outputs is not None else None,
            calibrated=any(rewrites.find(spec.name).calibrated for spec in self.plan.rewrites[-1:]),
            ratio=self.ratio,
            size_bytes=self.size_bytes,
            outputs=self.outputs,
            why=self.failed,
        )


class Precision:
    """Creates, runs and compares the quantized models of one session, within fractions of the budget.

    Attributes:
        tolerance: The tolerance of the outputs; ``limit`` is its numeric value.
        rows: Rows of the fully quantized models.
        late: Whether a model could not be created or tested within its part of the budget.
        missed_steps: Whether there was no time to measure a model with more layers in float.
        untested: Plans for which there was no time.
        enough_s: Budget, in seconds, expected to be enough for the untested plans too; 0 if all were tested.
    """

    def __init__(
        self,
        baseline: Measuring,
        model: ir.Model,
        plan_runs: PlanRuns,
        inputs: QuantizationInputs,
        tolerance: Tolerance,
        watch: Watcher,
        budget: Budget,
        race_s: Callable[[], float],
    ) -> None:
        """Start the clock from which fractions of the budget are counted.

        Args:
            baseline: Measurement of the float model, after its pilot.
            model: The float model as the quantizer reads it.
            plan_runs: Creates the quantized models, or reads the results of an interrupted session.
            inputs: Inputs for calibration and comparison.
            tolerance: The tolerance of the outputs.
            watch: Progress and cancellation callbacks.
            budget: The budget of the session.
            race_s: Returns the seconds from the end of all tests that the shortest comparison of one model needs.
        """
        self.baseline, self.model, self.inputs = baseline, model, inputs
        self.plan_runs, self.replay, self.watch = plan_runs, plan_runs.replay, watch
        self.tolerance = tolerance
        self.limit = tolerance.number or tolerance.of_rows
        self.rows: list[PrecisionRow] = []
        self.late, self.untested, self.enough_s = False, list[Plan](), 0.0
        self.missed_steps = False
        self.budget, self._began_s = budget, budget.spent_s
        self._outputs = QuantizedOutputs(baseline, plan_runs.replay, inputs.checking)
        self._runs, self._slow = False, dict[tuple[str, ...], QuantizedModel]()
        self._race_s, self._kept_s = race_s, 0.0

    @cached_property
    def groups(self) -> tuple[LayerGroup, ...]:
        """The layers of the float model as groups of nodes that are quantized together."""
        return layer_groups(self.model)

    def judge_by_task(self) -> OutputTask | None:
        """Switch to a metric that fits the task of the outputs and return the task; None if no metric fits."""
        choices = output_tasks(self.model)
        name = self.replay.once("task", str, lambda: self._fitting([choice.metric for choice in choices]))
        if not name:
            return None
        self.baseline.comparer.metric = name
        self.tolerance, self.limit = BY_METRIC, BY_METRIC.of_rows
        return next(choice for choice in choices if choice.metric == name)

    def _fitting(self, metrics: Sequence[str]) -> str:
        """Return the first metric that fits the float model's outputs; "" if no metric fits or no time is left."""
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
        """Return the seconds until a fraction of the time after the pilot has passed; negative if it has passed."""
        # The share counts from the end of the pilot because the duration of the pilot depends on the model, not on
        # the budget.
        return self._began_s + share * (self.budget.total_s - self._began_s) - self.budget.spent_s

    def spent(self, share: float) -> bool:
        """Return whether a fraction of the time after the pilot has passed, or the session was stopped."""
        return self.watch.stop() or self.left_s(share) < 0

    @property
    def comparison_s(self) -> float:
        """Seconds for computing one model's outputs: one process that runs each input for comparison once."""
        return self.outputs_s(len(self.inputs.checking), self.baseline.pilot.input_ns)

    def outputs_s(self, n_inputs: int, each_ns: float) -> float:
        """Return the seconds that a process takes to run `n_inputs` inputs once, each in `each_ns`."""
        return (self.baseline.pilot.start_ns + n_inputs * each_ns) / 1e9

    def holds(self, step_s: float) -> bool:
        """Return whether a step of `step_s` seconds fits in the budget.

        Once a model may win, the time of its comparison is kept: a better model that is not compared is no answer.
        """
        return self.budget.left_s - self._kept_s >= step_s

    def _keep_race(self) -> None:
        """Keep the time of a comparison, if it is still left."""
        needed_s = self._race_s()
        self._kept_s = needed_s if needed_s <= self.budget.left_s else 0.0

    @property
    def holds_step(self) -> bool:
        """Whether there is time to measure one more model with more layers in float."""
        fits = not self.spent(STEPS_SHARE) and self.holds(self.comparison_s)
        self.missed_steps = self.missed_steps or not fits
        return fits

    @property
    def complete(self) -> bool:
        """Whether all methods and steps were measured, so that a larger budget creates no further model."""
        return not (self.untested or self.missed_steps or self.late)

    def budget_with_steps_s(self, rest_s: float) -> float:
        """Return a budget, in seconds, that leaves `rest_s` after all methods and steps, which use more of it too."""
        return self._began_s + rest_s / (1 - STEPS_SHARE)

    def whole_models(self, plans: Sequence[Plan], share: float = WHOLE_MODELS_SHARE) -> list[QuantizedModel]:
        """Test each plan once on the whole model, add its row, and return the models that run, fastest first.

        Args:
            plans: The plans, in the order of their tests.
            share: Fraction of the time after the pilot within which tests are begun.
        """
        running: list[QuantizedModel] = []
        waiting = list(plans)
        while waiting:
            plan = waiting.pop(0)
            # Until one method runs, nothing can be compared, so the methods may use the whole budget.
            over = self.rows and (self.spent(share) if self._runs else self.watch.stop())
            # For the first comparison, the float model has to run too.
            whole_s = self.baseline.pilot.first.elapsed_ns / 1e9 + self.comparison_s * (
                1 if self._runs else 2
            )
            if over or not self.holds(max(whole_s, self._each_s(whole_s))):
                self._end([plan, *waiting], whole_s)
                break
            if (slower := self._slow.get(_speed(plan))) is not None:
                self.rows.append(_untested(plan, steps_words.slower_than_float(method(slower.plan))))
                continue
            self.watch.line(steps_words.testing(method(plan)))
            model = self._whole(plan)
            self.rows.append(model.row)
            if model.ratio is not None and model.ratio > SLOWER:
                self._slow.setdefault(_speed(plan), model)
            if model.failed and plan.rewrites and not plan.providers:
                left = left_in_float(plan.rewrites[-1])
                # If the error names an operator, the method is tested again without it, before the next method.
                kind = named_operator(self.baseline.side.model.ir, model.failed, left)
                again = without_operator(plan, kind) if kind and self._has_layers({*left, kind}) else None
                waiting = [again, *waiting] if again is not None else waiting
            if not model.failed:
                self._runs = True
                running.append(model)
                if is_right(model) and model.ratio is not None and model.ratio <= 1 - LEAST_SAVED:
                    self._keep_race()
        return sorted(running, key=lambda model: model.time_ns or math.inf)

    def _has_layers(self, in_float: Collection[str]) -> bool:
        """Return whether there are layers of other operator types than those in float."""
        return any(group.op_type not in in_float for group in self.groups)

    def _each_s(self, whole_s: float) -> float:
        """Return the mean seconds per tested method; ``whole_s`` before the first test."""
        n_tried = sum(row.tested for row in self.rows)
        return (self.budget.spent_s - self._began_s) / n_tried if n_tried else whole_s

    def _end(self, untried: Sequence[Plan], whole_s: float) -> None:
        """Add a row for each method that there was no time to test, and set the budget that would be enough."""
        n_tried = sum(row.tested for row in self.rows)
        each_s = self._each_s(whole_s)
        self.late = self.late or not n_tried
        self.untested += untried
        needed_s = self._began_s + (n_tried + len(self.untested)) * each_s / WHOLE_MODELS_SHARE
        self.enough_s = max(needed_s, self.budget.total_s + len(self.untested) * each_s)
        self.rows += [_untested(plan, NO_TIME) for plan in untried]

    def refuse(self, plan: Plan, why: str) -> None:
        """Add a row for a method that cannot run on this machine."""
        self.rows.append(_untested(plan, why))

    def leave_out(self, plans: Sequence[Plan]) -> None:
        """Add rows for methods that are not tested because they were worse in an earlier model."""
        self.rows += [_untested(plan, steps_words.WORSE_EARLIER) for plan in plans]

    def _whole(self, plan: Plan) -> QuantizedModel:
        baseline = self.baseline
        path, failed = self.made(plan)
        if path is None:
            return QuantizedModel(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=failed)
        arm = baseline.arm(f"bits-{plan.id}", plan=plan, model=path)
        outcome = baseline.executor.trial(arm, runs=baseline.pilot.look_runs)
        if not isinstance(outcome, Measured):
            return QuantizedModel(
                plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=outcome.what
            )
        if plan.providers and targets.target_of(plan).emulated(outcome):
            return QuantizedModel(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=EMULATED)
        baseline.limit_alive(outcome)
        difference = self.outputs_of(plan)
        before, after = figure(baseline.pilot.first, "median"), figure(outcome, "median")
        return QuantizedModel(
            plan=plan, kept=frozenset(), outputs=difference, error=difference.worst_slice_l2, time_ns=after,
            ratio=after / before if before and after else None, size_bytes=self._size(plan, path),
            failed="" if math.isfinite(difference.worst_slice_l2) else difference.what,
        )  # fmt: skip

    def _size(self, plan: Plan, path: Path) -> int:
        return model_bytes(path) if plan.rewrites else self.baseline.side.model.size_bytes

    def made(self, plan: Plan) -> tuple[Path | None, str]:
        """Create the model of a plan; return (its file, "") or, if that fails, (None, the reason)."""
        limit_s, began_s = max(LEAST_LOAD_S, MAKING_SHARE * self.budget.left_s), self.budget.spent_s
        path, failed = self.plan_runs.model_of(plan, limit_s)
        # The next decision includes its time, even if it failed.
        self.replay.record_other_work()
        self.late = self.late or (path is None and self.budget.spent_s - began_s >= limit_s)
        return path, failed

    def walk_start(self, model: QuantizedModel) -> Start:
        """Return a fully quantized model as a candidate for the start of a layer-by-layer walk."""
        beyond = self.tolerance.times(model.outputs) if model.outputs is not None else math.inf
        kind, ratio = f"{model.plan.rewrites[-1].name} {targets.target_of(model.plan).name}", model.ratio
        return Start(kind=kind, beyond=beyond, error=model.error, ratio=1.0 if ratio is None else ratio)

    def outputs_of(self, plan: Plan) -> OutputDifference:
        """Return the difference between a plan's outputs and the float model's, on the inputs for comparison."""
        return self._outputs.difference(plan, lambda: self.made(plan), self.tolerance)

    @property
    def reference_ns(self) -> int:
        """Nanoseconds that the float model took for the inputs for comparison; 0 if it was not run."""
        return self._outputs.reference_ns

    def compared(self, plan: Plan) -> QuantizedModel:
        """Create the model of a plan and compare its outputs, without timing the model."""
        path, failed = self.made(plan)
        difference = self.outputs_of(plan)
        return QuantizedModel(
            plan=plan, kept=frozenset(), outputs=difference, error=difference.worst_slice_l2,
            size_bytes=None if path is None else model_bytes(path), failed=failed,
        )  # fmt: skip

    def without_vnni(self, plan: Plan, limit_s: float) -> OutputDifference:
        """Return a plan's output difference on an emulated x86 processor without VNNI, where 16-bit sums saturate."""
        self.watch.line(steps_words.EMULATING)
        return self._outputs.without_vnni(plan, lambda: self.made(plan), self.tolerance, limit_s)


def is_right(model: QuantizedModel | None) -> bool:
    """Return whether a model runs and its outputs are within the tolerance and not all nearly zero."""
    outputs = model.outputs if model is not None else None
    return outputs is not None and outputs.ok and not outputs.unjudged


def _untested(plan: Plan, why: str) -> PrecisionRow:
    return PrecisionRow(plan=plan, within_ratio=None, why=why, tested=False)


def _speed(plan: Plan) -> tuple[str, ...]:
    """Return a key that plans of similar speed share; parameters outside the key only change the error."""
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
    """Return the last rewrite of a plan as text, with the provider unless it is the CPU provider."""
    where = Plan(providers=plan.providers, settings=plan.settings if plan.providers else {})
    parts = [*map(rewrite_words.spec, plan.rewrites[-1:]), *([where.describe()] if plan.providers else [])]
    return " on ".join(parts)
