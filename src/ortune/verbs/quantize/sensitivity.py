"""Precision layer by layer: what each costs and saves, and the models between float and fewer bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites, targets
from ortune.engines.quantizing.quantizing import changed, left_in_float
from ortune.graph.fingerprints import digest
from ortune.graph.groups import LayerGroup, group_of_nodes
from ortune.graph.model.graphs import name_of
from ortune.graph.model.open import open_model
from ortune.measuring.measuring import Measuring
from ortune.records import Plan
from ortune.search.phases import PROFILED_TRIALS, SENSITIVITY_SHARE
from ortune.search.precision import Kept, Question, Walk, answered, as_asked, keep_order
from ortune.store import layer_errors
from ortune.store.layer_errors import LayerError
from ortune.verbs.quantize.precision import Model, Precision

LayerTimes = Callable[[Measuring, Plan, Path], tuple[dict[str, float], dict[str, float]]]
"""Nanoseconds of a run by node, of the float model and of a plan's in that file; empty if nothing is profiled."""
QUESTION_TRIALS = 1.5
"""What a question takes, in trials: its model is made, loaded and run once on every input."""
MOST_QUESTIONS = 40
CLASSES = (0.05, 0.001)
"""Errors for which a point is looked for besides the tolerance."""
MOST_STORED_BYTES = 128 << 20
"""A step's model up to this size waits on disk for the race; a larger one is made again there."""


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
    """Return the plan with these layers in float, in addition to those that are already."""
    left = left_in_float(plan.rewrites[-1])
    return changed(plan, leave="+".join([*left, *sorted(set(names) - set(left))]))


class LayerByLayer:
    """Decides layer by layer, one means after another.

    Args:
        precision: Makes and compares models.
        times: Of layers, by a profile.
    """

    def __init__(self, precision: Precision, times: LayerTimes) -> None:
        self._precision, self._times = precision, times

    def sensitivity(self, whole: Model) -> Sensitivity | None:
        """Return what each layer costs and saves with one means; None if the model has no layer to decide on."""
        precision = self._precision
        groups = precision.groups
        path, _ = precision.made(whole.plan)
        if path is None or not groups:
            return None
        quantized = open_model(path)
        touched = _touched(quantized.ir.graph, groups)
        if not touched:
            return None
        before, after = precision.replay.once(
            f"profiles-{whole.plan.id}",
            tuple[list[float], list[float]],
            lambda: self._timed(whole.plan, path, groups),
        )
        precision.replay.pass_on()
        places = sorted(touched)
        # Without a profile all layers weigh the same.
        costs = [before[i] if before else 1.0 for i in places]
        kinds = [groups[i].kind for i in places]
        names = {kind: _file_of(whole.plan, kind) for kind in kinds}
        known = precision.replay.once(f"known-{whole.plan.id}", list[LayerError], lambda: self._known(names))
        expected = {question.kinds: question.error_ratio * whole.error for question in known}
        parts = as_asked([*expected], kinds, costs, self._most_questions)
        layers = [tuple(groups[places[i]].name for i in part) for part in parts]
        everything = {groups[i].name for i in places}

        def measure(number: int) -> float | None:
            if not precision.holds_step:
                return None
            precision.watch.line(f"sensitivity {number + 1} of {len(parts)}: {layers[number][0]}")
            others = everything - set(layers[number])
            # The error of a question is that of the model in which these layers alone are in fewer bits.
            return self._error(kept_plan(whole.plan, others)) if others else whole.error

        of_parts = [tuple(sorted({kinds[i] for i in part})) for part in parts]
        errors, asked = answered([expected.get(of) for of in of_parts], measure, whole.error)
        questions: list[Question] = []
        for number, (part, (error, measured)) in enumerate(zip(parts, errors, strict=True)):
            # Without a profile every layer is taken to save the same, so the order is that of the errors.
            saved = sum(before[places[i]] - after[places[i]] for i in part) if before else 1.0 * len(part)
            questions.append(Question(names=layers[number], error=error, saved_ns=saved, measured=measured))
            if measured and whole.error:
                self._keep(names, of_parts[number], error / whole.error)
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

    @property
    def _most_questions(self) -> int:
        """How many questions there is time for, one at least."""
        baseline, n_inputs = self._precision.baseline, len(self._precision.inputs.checking)
        # Each question runs every held-out input; up to four of them hardly matter beside making and loading
        # a model.
        each_s = QUESTION_TRIALS * baseline.pilot.start_ns / 1e9 * max(1, n_inputs / 4)
        fitting = self._precision.left_s(SENSITIVITY_SHARE) / max(0.2, each_s)
        return int(max(1.0, min(MOST_QUESTIONS, fitting)))

    def _error(self, plan: Plan) -> float:
        """Return the error of a model that is never raced, so its file goes: dozens of them would fill a disk."""
        error = self._precision.outputs_of(plan).worst_slice_l2
        self._precision.plan_runs.models.drop(plan)
        return error

    def _known(self, keys: Mapping[str, str]) -> list[LayerError]:
        """Return what earlier sessions saw of layers of the same structure."""
        folder = self._precision.baseline.log.folder
        return layer_errors.load(folder, keys) if folder else []

    def _keep(self, keys: Mapping[str, str], kinds: tuple[str, ...], error_ratio: float) -> None:
        folder = self._precision.baseline.log.folder
        if folder and math.isfinite(error_ratio):
            layer_errors.keep(folder, keys, LayerError(kinds=kinds, error_ratio=error_ratio))

    def _timed(self, plan: Plan, path: Path, groups: Sequence[LayerGroup]) -> tuple[list[float], list[float]]:
        """Nanoseconds of a run by group, in float and in fewer bits; empty if no profile shows them in time."""
        # A provider that compiles has one node in the profile, and no layers.
        if targets.of(plan).provider.compiles:
            return [], []
        if not self._precision.budget.holds(PROFILED_TRIALS, self._precision.baseline.pilot.first.elapsed_ns):
            return [], []
        self._precision.watch.line("profiling the float and the quantized model")
        before, after = self._times(self._precision.baseline, plan, path)
        if not before:
            return [], []
        return _by_group(self._precision.model, before, groups), _by_group(open_model(path).ir, after, groups)

    def _judged(self, model: Model) -> float:
        """Return the error against the limit: what keeps the tolerance never lies above, what does not never below."""
        limit = self._precision.limit
        # The walk compares errors with one number. Whether outputs are right may rest on rows or a metric
        # instead, so the error is moved to the side of the limit on which the verdict is.
        if model.outputs is not None and model.outputs.ok:
            return min(model.error, limit)
        return max(model.error, math.nextafter(limit, math.inf))

    def _measured(self, of: Sensitivity, kept: Kept) -> float | None:
        """Make and compare the model with these layers in float; None if the time for that is over."""
        precision = self._precision
        if not precision.holds_step:
            return None
        precision.watch.line(f"measuring with {len(kept)} of {len(of.groups)} layers in float")
        # Of a question of 4 layers that saves 8 us, 2 layers in float lose 4 us.
        lost = sum(
            question.saved_ns * len(kept & set(question.names)) / len(question.names)
            for question in of.questions
        )
        model = replace(
            precision.compared(kept_plan(of.whole.plan, kept) if kept else of.whole.plan),
            kept=kept,
            time_ns=None if of.whole.time_ns is None else of.whole.time_ns + lost,
        )
        if (model.size_bytes or 0) > MOST_STORED_BYTES:
            precision.plan_runs.models.drop(model.plan)
        of.models[kept] = model
        return self._judged(model)

    def walk(self, of: Sensitivity) -> None:
        """Measure the steps towards float: to the tolerance, refined there, then to a stricter and a looser error."""
        walk, limit = of.walk, self._precision.limit
        if walk.free:
            walk.error(walk.step(walk.free))
        kept = frozenset[str]() if walk.errors[frozenset()] <= limit else walk.within(limit)
        if kept:
            walk.refined(kept, limit)
        for other in CLASSES:
            if other != limit:
                walk.within(other)


def _file_of(plan: Plan, kind: str) -> str:
    """Return what layers are known by from model to model: structure, kind of means and provider, and no names."""
    elsewhere = plan.provider_names if plan.providers else ()
    return digest(plan.rewrites[-1].name, kind, *elsewhere)[:32]


def _by_group(model: ir.Model, times_ns: Mapping[str, float], groups: Sequence[LayerGroup]) -> list[float]:
    of_groups = [0.0] * len(groups)
    for node, place in group_of_nodes(model.graph, groups).items():
        of_groups[place] += times_ns.get(name_of(node), 0.0)
    return of_groups


def _touched(graph: ir.Graph, groups: Sequence[LayerGroup]) -> set[int]:
    """Return places of the groups of which a quantized graph computes something in fewer bits."""
    of = group_of_nodes(graph, groups)
    return {of[node] for node in graph if node in of and rewrites.in_fewer_bits(node)}
