"""Precision layer by layer: what each costs and saves, and the models between float and fewer bits."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites
from ortune.analysis.tasks import OutputTask, output_tasks
from ortune.errors import OrtuneError, UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.clock import Clock
from ortune.experiment.plan_runs import PlanRuns
from ortune.experiment.quantising import (
    Inputs,
    changed,
    model_bytes,
    named_operator,
    within,
    without_operator,
)
from ortune.experiment.watcher import Watcher
from ortune.graph.fingerprints import digest
from ortune.graph.groups import LayerGroup, group_of_nodes, layer_groups
from ortune.model.graphs import name_of
from ortune.model.open import open_model
from ortune.records import Measured, OutputDifference, Plan, PrecisionRow
from ortune.search.figures import figure
from ortune.search.phases import (
    LEAST_LOAD_S,
    MAKING_SHARE,
    SENSITIVITY_SHARE,
    STEPS_SHARE,
    WHOLE_MODELS_SHARE,
)
from ortune.search.precision import Kept, Question, Walk, answered, keep_order, merged
from ortune.store import layer_errors
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess
from ortune.trials.tolerance import Tolerance

LayerTimes = Callable[[Baseline, Plan, Path], tuple[dict[str, float], dict[str, float]]]
"""Nanoseconds of a run by node, of the float model and of a plan's in that file; empty where nothing is profiled."""
QUESTION_TRIALS = 1.5
"""What a question takes, in trials: its model is made, loaded and run once on every input."""
MOST_QUESTIONS = 40
BY_METRIC = Tolerance(text="metric>=99%", metric_of_base=0.99)
"""What outputs have to keep of a metric that was chosen for them."""
LEAST_RIGHT = 10
"""Answers without which a metric is not chosen: of fewer one alone is more than a tolerance."""
MOST_EMULATED = 2
"""Inputs for which a processor without VNNI is emulated: products in numpy take their time."""
CLASSES = (0.05, 0.001)
"""Errors for which a point is looked for besides the tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model in fewer bits, as far as it was looked at.

    Attributes:
        plan: Makes it.
        kept: Layers in float.
        outputs: Against the float model's, on the inputs kept for it; None where it does not run.
        error: The worst slice's relative L2; infinite where nothing can be compared.
        time_ns: Of a run: measured for a whole model, else as the profiles suggest; None where that is not known.
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
        """As a bundle and the answer are told of it."""
        return PrecisionRow(
            plan=self.plan,
            within_ratio=within(self.outputs) if self.outputs is not None else None,
            calibrated=rewrites.find(self.plan.rewrites[-1].name).calibrated,
            ratio=self.ratio,
            size_bytes=self.size_bytes,
            outputs=self.outputs,
            why=self.failed,
        )


@dataclass(slots=True, kw_only=True)
class Sensitivity:
    """One means, layer by layer.

    Attributes:
        whole: The model with all layers in fewer bits.
        groups: Of the float model.
        questions: In the order of the graph.
        asked: Whether the error of each was measured.
        times_ns: In float by group; empty without a profile.
        walk: Towards float.
        models: Those that were measured on the way, by what is in float.
    """

    whole: Model
    groups: tuple[LayerGroup, ...]
    questions: list[Question]
    asked: bool
    times_ns: list[float]
    walk: Walk
    models: dict[Kept, Model] = field(default_factory=dict)


def kept_plan(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with these layers in float beside what it leaves out already."""
    left = [word for word in plan.rewrites[-1].params.get("leave", "").split("+") if word]
    return changed(plan, leave="+".join([*left, *sorted(set(names) - set(left))]))


class Precision:
    """The models in fewer bits of one session: made, run and compared, within shares of its budget."""

    def __init__(
        self,
        baseline: Baseline,
        model: ir.Model,
        plan_runs: PlanRuns,
        inputs: Inputs,
        tolerance: Tolerance,
        watch: Watcher,
        clock: Clock,
        times: LayerTimes,
    ) -> None:
        """Takes what is measured, and with what.

        Args:
            baseline: The float model, once its pilot ran.
            model: What a quantizer sees of it.
            plan_runs: Makes those in fewer bits, and knows what an interrupted session measured.
            inputs: What they are calibrated on and compared with.
            tolerance: What the outputs must keep.
            watch: Is told how far it is.
            clock: Of the session.
            times: Of layers, by a profile.
        """
        self._times = times
        self._baseline, self._model, self._inputs = baseline, model, inputs
        self._plan_runs, self._replay, self._watch, self._clock = plan_runs, plan_runs.replay, watch, clock
        self._began_s, self._reference = clock.spent_s, Path("-")
        self.tolerance = tolerance
        self.limit = tolerance.number or tolerance.of_rows
        self.rows: list[PrecisionRow] = []

    def judge_by_task(self) -> OutputTask | None:
        """Judges by what outputs are for from now on, where graph and data tell it; what was chosen."""
        choices = output_tasks(self._model)
        name = self._replay.once("task", str, lambda: self._fitting([each.metric for each in choices]))
        if not name:
            return None
        self._baseline.check.metric = name
        self.tolerance, self.limit = BY_METRIC, BY_METRIC.of_rows
        return next(each for each in choices if each.metric == name)

    def _fitting(self, metrics: Sequence[str]) -> str:
        """The first metric that the float model's outputs can be measured by; "" for none."""
        for metric in dict.fromkeys(metrics):
            try:
                known = self._baseline.check.measured_by(metric, self._float_outputs(), self._inputs.checking)
            except UsageError:  # the outputs are of another kind after all
                continue
            if known.n_right >= LEAST_RIGHT:
                return metric
        return ""

    def spent(self, share: float) -> bool:
        """Whether so much of the time after the pilot is over, or a stop was asked for."""
        end_s = self._began_s + share * (self._clock.budget_s - self._began_s)
        return self._watch.stop() or self._clock.spent_s > end_s

    # --- whole models

    def whole_models(self, plans: Sequence[Plan]) -> list[Model]:
        """Each means for the whole model, tried once; those that run, the fastest first."""
        found: list[Model] = []
        waiting = list(plans)
        while waiting:
            plan = waiting.pop(0)
            if self.rows and self.spent(WHOLE_MODELS_SHARE):
                break
            self._watch.line(f"testing the whole model: {_means(plan)}")
            model = self._whole(plan)
            self.rows.append(model.row)
            if model.failed:
                kind = named_operator(self._baseline.side.model.ir, model.failed, _left(plan))
                again = without_operator(plan, kind) if kind else None
                waiting = [again, *waiting] if again is not None else waiting
            else:
                found.append(model)
        return sorted(found, key=lambda each: each.time_ns or math.inf)

    def _whole(self, plan: Plan) -> Model:
        baseline = self._baseline
        path, failed = self._made(plan)
        if path is None:
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=failed)
        arm = baseline.arm(f"bits-{plan.id}", plan=plan, model=path)
        outcome = baseline.executor.trial(arm, runs=baseline.pilot.look_runs)
        if not isinstance(outcome, Measured):
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=outcome.what)
        baseline.live_with(outcome)
        found = self.outputs_of(plan)
        before, after = figure(baseline.pilot.first, "median"), figure(outcome, "median")
        return Model(
            plan=plan, kept=frozenset(), outputs=found, error=found.worst_slice_l2, time_ns=after,
            ratio=after / before if before and after else None, size_bytes=model_bytes(path),
            failed="" if math.isfinite(found.worst_slice_l2) else found.what,
        )  # fmt: skip

    def _made(self, plan: Plan) -> tuple[Path | None, str]:
        """The file of a plan's model; None and why where it cannot be made."""
        return self._plan_runs.model_of(plan, max(LEAST_LOAD_S, MAKING_SHARE * self._clock.left_s))

    def outputs_of(self, plan: Plan) -> OutputDifference:
        """A plan's outputs against those of the float model, on the inputs kept for it."""
        baseline, key = self._baseline, f"bits-{plan.id}"
        if key in baseline.check.known_differences:
            return baseline.check.known_differences[key]
        path, failed = self._made(plan)
        if path is None:
            return OutputDifference(ok=False, comparable=False, what=failed)
        refs, reference = self._inputs.checking, self._float_outputs()
        arm = baseline.arm(f"{key}-outputs", plan=plan, model=path, refs=refs)
        outcome = baseline.executor.trial(arm, runs=0, keep_outputs=True, fresh=True)
        if isinstance(outcome, Measured):
            place = Path(outcome.outputs_path)
            left_out = baseline.check.left_out(plan.rewrites)
            found = baseline.check.compared(reference, place, refs, self.tolerance, left_out)
            shutil.rmtree(place, ignore_errors=True)
        else:
            found = OutputDifference(ok=False, comparable=False, what=outcome.what)
        baseline.log.add("difference", {"key": key, "difference": found})
        self._replay.pass_on()
        return found

    def compared(self, plan: Plan) -> Model:
        """A plan's model and its outputs; it is not timed."""
        path, failed = self._made(plan)
        found = self.outputs_of(plan)
        return Model(
            plan=plan, kept=frozenset(), outputs=found, error=found.worst_slice_l2,
            size_bytes=None if path is None else model_bytes(path), failed=failed,
        )  # fmt: skip

    def _float_outputs(self) -> Path:
        """The folder of what the float model gives for the inputs kept for it."""
        if not self._reference.is_dir():
            baseline = self._baseline
            base = baseline.arm("bits-base", refs=self._inputs.checking)
            first = baseline.executor.trial(base, runs=0, keep_outputs=True, fresh=True)
            self._reference = Path(baseline.require_measured(base, first).outputs_path)
        return self._reference

    def without_vnni(self, plan: Plan, limit_s: float) -> OutputDifference:
        """A plan's outputs as a processor computes them on which sums of two products are of 16 bits."""
        baseline, key, refs = self._baseline, f"no-vnni-{plan.id}", self._inputs.checking[:MOST_EMULATED]
        if key in baseline.check.known_differences:
            return baseline.check.known_differences[key]
        path, failed = self._made(plan)
        place = baseline.scratch / key
        try:
            if path is None:
                raise OrtuneError(failed)
            self._watch.line("emulating a processor without VNNI")
            tool = ToolProcess(
                runtime=baseline.side.runtime,
                folder=baseline.scratch,
                custom_ops=tuple(baseline.options.custom_ops),
                feeds=refs,
                limits=Limits(load_s=limit_s),
            )
            tool("saturated", path, place, {})
        except OrtuneError as error:
            found = OutputDifference(ok=False, comparable=False, what=error.what)
        else:
            left_out = baseline.check.left_out(plan.rewrites)
            found = baseline.check.compared(self._float_outputs(), place, refs, self.tolerance, left_out)
        shutil.rmtree(place, ignore_errors=True)
        baseline.log.add("difference", {"key": key, "difference": found})
        return found

    # --- layer by layer

    def sensitivity(self, whole: Model) -> Sensitivity | None:
        """What each layer costs and saves with one means; None where the model has no layer to decide on."""
        groups = layer_groups(self._model)
        path, _ = self._made(whole.plan)
        if path is None or not groups:
            return None
        quantized = open_model(path)
        touched = _touched(quantized.ir.graph, groups)
        if not touched:
            return None
        before, after = self._replay.once(
            f"profiles-{whole.plan.id}",
            tuple[list[float], list[float]],
            lambda: self._timed(whole.plan, path, groups),
        )
        self._replay.pass_on()
        places = sorted(touched)
        end_s = self._began_s + SENSITIVITY_SHARE * (self._clock.budget_s - self._began_s)
        each_s = (
            QUESTION_TRIALS * self._baseline.pilot.start_ns / 1e9 * max(1, len(self._inputs.checking) / 4)
        )
        most = int(max(1.0, min(MOST_QUESTIONS, (end_s - self._clock.spent_s) / max(0.2, each_s))))
        costs = [before[i] if before else 1.0 for i in places]
        parts = merged([groups[i].kind for i in places], costs, most)
        layers = [tuple(groups[places[i]].name for i in part) for part in parts]
        everything = {groups[i].name for i in places}

        def measure(number: int) -> float | None:
            if self.spent(STEPS_SHARE):
                return None
            self._watch.line(f"sensitivity {number + 1} of {len(parts)}: {layers[number][0]}")
            others = everything - set(layers[number])
            if not others:
                return whole.error
            return self.outputs_of(kept_plan(whole.plan, others)).worst_slice_l2

        keys = [_structure(whole.plan, [groups[places[i]].kind for i in part]) for part in parts]
        expected = self._replay.once(
            f"expected-{whole.plan.id}", list[float | None], lambda: self._known(keys)
        )
        errors, asked = answered(
            [None if e is None else e * whole.error for e in expected], measure, whole.error
        )
        questions: list[Question] = []
        for number, (part, (error, measured)) in enumerate(zip(parts, errors, strict=True)):
            saved = sum(before[places[i]] - after[places[i]] for i in part) if before else 1.0 * len(part)
            questions.append(Question(names=layers[number], error=error, saved_ns=saved, measured=measured))
            if measured and whole.error:
                self._keep(keys[number], error / whole.error)
        result = Sensitivity(
            whole=whole,
            groups=groups,
            questions=questions,
            asked=asked,
            times_ns=before,
            walk=Walk(questions=keep_order(questions), measure=lambda kept: self._measured(result, kept)),
        )
        result.models[frozenset()] = whole
        result.walk.errors[frozenset()] = self._judged(whole)
        return result

    def _known(self, keys: Sequence[str]) -> list[float | None]:
        """What an earlier session saw of layers of the same structure: their error over that of the whole model."""
        folder = self._baseline.log.folder
        return [layer_errors.load(folder, key) if folder else None for key in keys]

    def _keep(self, key: str, error_ratio: float) -> None:
        folder = self._baseline.log.folder
        if folder and math.isfinite(error_ratio):
            layer_errors.keep(folder, key, error_ratio)

    def _timed(self, plan: Plan, path: Path, groups: Sequence[LayerGroup]) -> tuple[list[float], list[float]]:
        """Nanoseconds of a run by group, in float and in fewer bits; empty where they cannot be profiled."""
        self._watch.line("profiling the float and the quantized model")
        before, after = self._times(self._baseline, plan, path)
        if not before:
            return [], []
        return _by_group(self._model, before, groups), _by_group(open_model(path).ir, after, groups)

    def _judged(self, model: Model) -> float:
        """The error against the limit: what keeps the tolerance never lies above, what does not never below."""
        if model.outputs is not None and model.outputs.ok:
            return min(model.error, self.limit)
        return max(model.error, math.nextafter(self.limit, math.inf))

    def _measured(self, of: Sensitivity, kept: Kept) -> float | None:
        """Makes and compares the model with these layers in float; None where the time for that is over."""
        if self.spent(STEPS_SHARE):
            return None
        self._watch.line(f"measuring with {len(kept)} of {len(of.groups)} layers in float")
        lost = sum(each.saved_ns * len(kept & set(each.names)) / len(each.names) for each in of.questions)
        model = replace(
            self.compared(kept_plan(of.whole.plan, kept) if kept else of.whole.plan),
            kept=kept,
            time_ns=None if of.whole.time_ns is None else of.whole.time_ns + lost,
        )
        of.models[kept] = model
        return self._judged(model)

    def walk(self, of: Sensitivity) -> None:
        """Measures the steps towards float: to the tolerance, refined there, then to a stricter and a looser error."""
        walk = of.walk
        if walk.free:
            walk.error(walk.step(walk.free))
        kept = frozenset[str]() if walk.errors[frozenset()] <= self.limit else walk.within(self.limit)
        if kept:
            walk.refined(kept, self.limit)
        for limit in CLASSES:
            if limit != self.limit:
                walk.within(limit)


def _structure(plan: Plan, kinds: Sequence[str]) -> str:
    """What layers are known by from model to model: their structure and the kind of means, and no names."""
    return digest(plan.rewrites[-1].name, *sorted(set(kinds)))[:32]


def _by_group(model: ir.Model, times_ns: Mapping[str, float], groups: Sequence[LayerGroup]) -> list[float]:
    found = [0.0] * len(groups)
    for node, place in group_of_nodes(model.graph, groups).items():
        found[place] += times_ns.get(name_of(node), 0.0)
    return found


def _touched(graph: ir.Graph, groups: Sequence[LayerGroup]) -> set[int]:
    """Places of the groups of which a quantized graph computes something in fewer bits."""
    of = group_of_nodes(graph, groups)
    return {of[node] for node in graph if node in of and rewrites.in_fewer_bits(node)}


def _means(plan: Plan) -> str:
    spec = plan.rewrites[-1]
    params = ",".join(f"{name}={value}" for name, value in spec.params.items())
    return f"{spec.name}:{params}" if params else spec.name


def _left(plan: Plan) -> list[str]:
    return [word for word in plan.rewrites[-1].params.get("leave", "").split("+") if word]
