"""Precision layer by layer: what each costs and saves, and the models between float and fewer bits."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune import rewrites
from ortune.analysis.dot_products import saturates
from ortune.errors import OrtuneError
from ortune.experiment.baseline import Baseline
from ortune.experiment.clock import Clock
from ortune.experiment.quantising import (
    Inputs,
    model_bytes,
    named_operator,
    unsaturated,
    widest_first,
    without_operator,
)
from ortune.experiment.replay import NO_MODEL, Replay
from ortune.experiment.watcher import Watcher
from ortune.graph.groups import LayerGroup, group_of_nodes, layer_groups
from ortune.model.graphs import name_of
from ortune.model.open import open_model
from ortune.providers import CPU
from ortune.records import Host, Measured, OutputDifference, Plan, PrecisionRow, RewriteSpec
from ortune.search.figures import figure
from ortune.search.phases import (
    LEAST_LOAD_S,
    MAKING_SHARE,
    SENSITIVITY_SHARE,
    STEPS_SHARE,
    WHOLE_MODELS_SHARE,
)
from ortune.search.precision import Kept, Question, Walk, keep_order, merged
from ortune.trials.rewriting import Models
from ortune.trials.tolerance import Tolerance

LayerTimes = Callable[[Baseline, Plan, Path], tuple[dict[str, float], dict[str, float]]]
"""Nanoseconds of a run by node, of the float model and of a plan's in that file; empty where nothing is profiled."""
QUESTION_TRIALS = 1.5
"""What a question takes, in trials: its model is made, loaded and run once on every input."""
MOST_QUESTIONS = 40
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
        failed: Why it does not run.
    """

    plan: Plan
    kept: Kept
    outputs: OutputDifference | None
    error: float
    time_ns: float | None = None
    size_bytes: int | None = None
    failed: str = ""


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


_GROUND = ("initializers-out-of-inputs", "constant-folding:limit=1048576")
"""What makes constants of weights that a caller may feed, and of weights that are stored in other types."""


def means(model: ir.Model, side: Plan, host: Host) -> tuple[list[Plan], ir.Model]:
    """Each means for the whole model that is worth trying on the CPU, and the model that a quantizer then sees.

    Args:
        model: Is not changed.
        side: What the float model runs with.
        host: Where pairs of 8-bit products saturate, weights of 7 bits are tried too: they run alike everywhere.
    """
    ground: list[RewriteSpec] = []
    for text in _GROUND:
        spec, copy = rewrites.parse(text), model.clone()
        rewrites.find(spec.name).apply(copy, spec.params)
        if _weights(copy) > _weights(model):
            model, ground = copy, [*ground, spec]
    found = [
        Plan(rewrites=(*ground, unsaturated(spec, model, host)), settings=side.settings)
        for spec, _ in rewrites.proposals(model, ("numerics",), objective="latency", target=CPU.target)
        if rewrites.find(spec.name).family == rewrites.FAMILY
    ]
    found = _equalized(found, model)
    if saturates(host):
        found += [seven for plan in found if (seven := _seven_bits(plan)) is not None]
    # What reaches most of the weights may gain most; of those that reach as many the quicker to make is first.
    found.sort(key=lambda plan: -round(4 * _reached(model, plan) / max(1, _weights(model))))
    return widest_first(found), model


def _equalized(plans: Sequence[Plan], model: ir.Model) -> list[Plan]:
    """Static means behind equalized channels where these change the model; the first of them without it too, last."""
    spec = rewrites.parse("cross-layer-equalization")
    if not rewrites.find(spec.name).apply(model.clone(), spec.params).modified:
        return list(plans)
    static = [plan for plan in plans if plan.rewrites[-1].name == "static-int8"]
    behind = {
        plan.id: msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], spec, plan.rewrites[-1]))
        for plan in static
    }
    return [*(behind.get(plan.id, plan) for plan in plans), *static[:1]]


def _reached(model: ir.Model, plan: Plan) -> int:
    """Bytes of the weights that a means stores in fewer bits."""
    reach = {
        "static-int8": rewrites.PRODUCTS,
        "dynamic-int8": ("MatMul", "Gemm", *rewrites.RECURRENT),
        "weight-only-bits": ("MatMul",),
    }
    return rewrites.weight_bytes(model, *reach.get(plan.rewrites[-1].name, ()))


def _seven_bits(plan: Plan) -> Plan | None:
    """The plan with weights of 7 bits; None where it has a parameter already, or computes nothing of 8 bits."""
    spec = plan.rewrites[-1]
    if spec.name not in ("static-int8", "dynamic-int8") or spec.params not in ({}, {"scales": "channel"}):
        return None
    made = RewriteSpec(name=spec.name, params={**spec.params, "range": "7"})
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], made))


def _weights(model: ir.Model) -> int:
    return rewrites.weight_bytes(model, *rewrites.PRODUCTS, *rewrites.RECURRENT)


def kept_plan(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with these layers in float beside what it leaves out already."""
    spec = plan.rewrites[-1]
    left = [word for word in spec.params.get("leave", "").split("+") if word]
    params = {**spec.params, "leave": "+".join([*left, *sorted(set(names) - set(left))])}
    made = RewriteSpec(name=spec.name, params=rewrites.find(spec.name).canonical(params))
    return msgspec.structs.replace(plan, rewrites=(*plan.rewrites[:-1], made))


def worst_error(found: OutputDifference | None) -> float:
    """The worst slice's relative L2 over all outputs; infinite where there is no distance.

    Outputs that have nothing in common have one too: it tells which layers are to blame.
    """
    if found is None or not (found.comparable or found.outputs):
        return math.inf
    slices = [output.worst_slice.relative_l2 for output in found.outputs if output.worst_slice is not None]
    return max([found.relative_l2, *slices])


class Precision:
    """The models in fewer bits of one session: made, run and compared, within shares of its budget."""

    def __init__(
        self,
        baseline: Baseline,
        model: ir.Model,
        models: Models,
        inputs: Inputs,
        tolerance: Tolerance,
        replay: Replay,
        watch: Watcher,
        clock: Clock,
        times: LayerTimes,
    ) -> None:
        """Takes what is measured, and with what.

        Args:
            baseline: The float model, once its pilot ran.
            model: What a quantizer sees of it.
            models: Makes those in fewer bits.
            inputs: What they are calibrated on and compared with.
            tolerance: What the outputs must keep.
            replay: What an interrupted session measured.
            watch: Is told how far it is.
            clock: Of the session.
            times: Of layers, by a profile.
        """
        self._times = times
        self._baseline, self._model, self._models, self._inputs = baseline, model, models, inputs
        self._replay, self._watch, self._clock = replay, watch, clock
        self._began_s, self._reference = clock.spent_s, Path("-")
        self.tolerance = tolerance
        self.limit = tolerance.number or tolerance.of_rows
        self.rows: list[PrecisionRow] = []

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
            model, ratio = self._whole(plan)
            self.rows.append(
                PrecisionRow(
                    plan=plan,
                    within_ratio=None,
                    calibrated=rewrites.find(plan.rewrites[-1].name).calibrated,
                    ratio=ratio,
                    size_bytes=model.size_bytes,
                    outputs=model.outputs,
                    why=model.failed,
                )
            )
            if model.failed:
                kind = named_operator(self._baseline.side.model.ir, model.failed, _left(plan))
                again = without_operator(plan, kind) if kind else None
                waiting = [again, *waiting] if again is not None else waiting
            else:
                found.append(model)
        return sorted(found, key=lambda each: each.time_ns or math.inf)

    def _whole(self, plan: Plan) -> tuple[Model, float | None]:
        baseline = self._baseline
        path, failed = self._path(plan)
        if path is None:
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=failed), None
        arm = baseline.arm(f"bits-{plan.id}", plan=plan, model=path)
        outcome = baseline.executor.trial(arm, runs=baseline.pilot.look_runs)
        if not isinstance(outcome, Measured):
            failed = outcome.what
            return Model(plan=plan, kept=frozenset(), outputs=None, error=math.inf, failed=failed), None
        baseline.live_with(outcome)
        found = self.outputs_of(plan)
        before, after = figure(baseline.pilot.first, "median"), figure(outcome, "median")
        model = Model(
            plan=plan, kept=frozenset(), outputs=found, error=worst_error(found), time_ns=after,
            size_bytes=model_bytes(path), failed="" if math.isfinite(worst_error(found)) else found.what,
        )  # fmt: skip
        return model, after / before if before and after else None

    def _path(self, plan: Plan) -> tuple[Path | None, str]:
        """The file of a plan's model; None and why where it cannot be made."""
        key = self._models.key(plan)
        failed = self._replay.no_models.get(key, "")
        try:
            if not failed:
                limit_s = max(LEAST_LOAD_S, MAKING_SHARE * self._clock.left_s)
                return self._models.path(plan, limit_s), ""
        except OrtuneError as error:
            failed = self._replay.no_models[key] = error.what
            self._baseline.log.add(NO_MODEL, {"key": key, "what": failed})
        return None, failed

    def outputs_of(self, plan: Plan) -> OutputDifference:
        """A plan's outputs against those of the float model, on the inputs kept for it."""
        baseline, key = self._baseline, f"bits-{plan.id}"
        if key in baseline.check.known_differences:
            return baseline.check.known_differences[key]
        path, failed = self._path(plan)
        if path is None:
            return OutputDifference(ok=False, comparable=False, what=failed)
        refs = self._inputs.checking
        if not self._reference.is_dir():
            base = baseline.arm("bits-base", refs=refs)
            first = baseline.executor.trial(base, runs=0, keep_outputs=True, fresh=True)
            self._reference = Path(baseline.require_measured(base, first).outputs_path)
        arm = baseline.arm(f"{key}-outputs", plan=plan, model=path, refs=refs)
        outcome = baseline.executor.trial(arm, runs=0, keep_outputs=True, fresh=True)
        if isinstance(outcome, Measured):
            place = Path(outcome.outputs_path)
            left_out = baseline.check.left_out(plan.rewrites)
            found = baseline.check.compared(self._reference, place, refs, self.tolerance, left_out)
            shutil.rmtree(place, ignore_errors=True)
        else:
            found = OutputDifference(ok=False, comparable=False, what=outcome.what)
        baseline.log.add("difference", {"key": key, "difference": found})
        self._replay.pass_on()
        return found

    # --- layer by layer

    def sensitivity(self, whole: Model) -> Sensitivity | None:
        """What each layer costs and saves with one means; None where the model has no layer to decide on."""
        groups = layer_groups(self._model)
        path, _ = self._path(whole.plan)
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
        questions: list[Question] = []
        asked = True
        for number, part in enumerate(parts):
            members = [places[i] for i in part]
            names = tuple(groups[i].name for i in members)
            saved = sum(before[i] - after[i] for i in members) if before else 1.0 * len(members)
            error = whole.error
            if self.spent(STEPS_SHARE):
                asked = False
            else:
                self._watch.line(f"sensitivity {number + 1} of {len(parts)}: {names[0]}")
                others = {groups[i].name for i in places} - set(names)
                found = self.outputs_of(kept_plan(whole.plan, others)) if others else whole.outputs
                error = worst_error(found)
            questions.append(Question(names=names, error=error, saved_ns=saved))
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
        plan = kept_plan(of.whole.plan, kept) if kept else of.whole.plan
        path, failed = self._path(plan)
        found = self.outputs_of(plan)
        lost = sum(each.saved_ns * len(kept & set(each.names)) / len(each.names) for each in of.questions)
        model = Model(
            plan=plan, kept=kept, outputs=found, error=worst_error(found),
            time_ns=None if of.whole.time_ns is None else of.whole.time_ns + lost,
            size_bytes=None if path is None else model_bytes(path), failed=failed,
        )  # fmt: skip
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
