"""Sensitivity of each layer (its error and time saving), and the partly quantized models derived from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from ortune import rewrites, targets
from ortune.engines.quantizing.quantizing import left_in_float, with_parameters
from ortune.graph.fingerprints import digest
from ortune.graph.groups import LayerGroup, group_of_nodes
from ortune.graph.model.graphs import name_of
from ortune.graph.model.open import open_model
from ortune.measuring.measuring import Measuring
from ortune.records import Plan
from ortune.search.phases import PROFILED_TRIALS, SENSITIVITY_SHARE
from ortune.search.precision import (
    Kept,
    LayerSet,
    QuantizationWalk,
    float_order,
    grouped_like,
    measured_errors,
)
from ortune.store import layer_errors
from ortune.store.layer_errors import LayerError
from ortune.verbs.quantize import steps_words
from ortune.verbs.quantize.precision import Precision, QuantizedModel

LayerTimes = Callable[[Measuring, Plan, Path], tuple[dict[str, float], dict[str, float]]]
"""Function that maps node names to nanoseconds per run, for the float model and a plan's file; empty if it fails."""
QUESTION_TRIALS = 1.5
"""Cost, in trials, of measuring a set of layers: a model is created, loaded and run once on every input."""
MOST_QUESTIONS = 40
CLASSES = (0.05, 0.001)
"""Error limits, in addition to the tolerance, for which a model is searched."""
MOST_STORED_BYTES = 128 << 20
"""Maximum size of a step's model that is kept on disk for the race; a larger one is created again."""


@dataclass(slots=True, kw_only=True)
class Sensitivity:
    """The sensitivity of one method, layer by layer.

    Attributes:
        whole: The fully quantized model.
        groups: Layers of the float model.
        questions: Sets of layers with their errors, in graph order.
        asked: Whether there was time to measure all sets of layers that were to be measured.
        times_ns: Time of each group of layers in float; empty without a profile.
        walk: The walk towards float.
        everything: All layers that the method quantizes; with these in float, the model is the float model.
        all_float: Whether no layer can be quantized with a gain and within the tolerance.
        models: The measured models, keyed by the set of layers that they keep in float.
    """

    whole: QuantizedModel
    groups: tuple[LayerGroup, ...]
    questions: list[LayerSet]
    asked: bool
    times_ns: list[float]
    walk: QuantizationWalk
    everything: Kept
    all_float: bool = False
    models: dict[Kept, QuantizedModel] = field(default_factory=dict)


def kept_plan(plan: Plan, names: Collection[str]) -> Plan:
    """Return the plan with further layers kept in float, in addition to the layers that it already keeps."""
    left = left_in_float(plan.rewrites[-1])
    return with_parameters(plan, leave="+".join([*left, *sorted(set(names) - set(left))]))


class LayerByLayer:
    """Decides for each layer whether it is quantized, one method after another.

    Args:
        precision: Creates and compares models.
        times: Function that returns the times of layers from profiles.
    """

    def __init__(self, precision: Precision, times: LayerTimes) -> None:
        self._precision, self._times = precision, times

    def sensitivity(self, whole: QuantizedModel) -> Sensitivity | None:
        """Measure the error and time saving of each layer with one method; None if the method quantizes no layer."""
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
        precision.replay.record_other_work()
        places = sorted(touched)
        # Without a profile all layers weigh the same.
        costs = [before[i] if before else 1.0 for i in places]
        kinds = [groups[i].kind for i in places]
        names = {kind: _file_of(whole.plan, kind) for kind in kinds}
        known = precision.replay.once(f"known-{whole.plan.id}", list[LayerError], lambda: self._known(names))
        expected = {question.kinds: question.error_ratio * whole.error for question in known}
        parts = grouped_like([*expected], kinds, costs, self._most_questions)
        layers = [tuple(groups[places[i]].name for i in part) for part in parts]
        everything = {groups[i].name for i in places}

        def measure(number: int) -> float | None:
            if not precision.holds_step:
                return None
            precision.watch.line(steps_words.layer(number + 1, len(parts), layers[number][0]))
            others = everything - set(layers[number])
            # Error of the model in which only these layers are quantized.
            return self._error(kept_plan(whole.plan, others)) if others else whole.error

        of_parts = [tuple(sorted({kinds[i] for i in part})) for part in parts]
        errors, asked = measured_errors([expected.get(of) for of in of_parts], measure, whole.error)
        questions: list[LayerSet] = []
        for number, (part, (error, measured)) in enumerate(zip(parts, errors, strict=True)):
            # Without a profile every layer is assumed to save the same time, so errors determine the order.
            saved = sum(before[places[i]] - after[places[i]] for i in part) if before else 1.0 * len(part)
            questions.append(LayerSet(names=layers[number], error=error, saved_ns=saved, measured=measured))
            if measured and whole.error:
                self._keep(names, of_parts[number], error / whole.error)
        result = Sensitivity(
            whole=whole,
            groups=groups,
            questions=questions,
            asked=asked,
            times_ns=before,
            everything=frozenset(everything),
            walk=QuantizationWalk(
                questions=float_order(questions), measure=lambda kept: self._measured(result, kept)
            ),
        )
        result.models[frozenset()] = whole
        result.walk.errors[frozenset()] = self._judged(whole)
        return result

    @property
    def _most_questions(self) -> int:
        """Number of sets of layers that there is time to measure, from 1 to `MOST_QUESTIONS`."""
        baseline, n_inputs = self._precision.baseline, len(self._precision.inputs.checking)
        # Each question runs every input for comparison; up to four take little time compared with creating and
        # loading a model.
        each_s = QUESTION_TRIALS * baseline.pilot.start_ns / 1e9 * max(1, n_inputs / 4)
        fitting = self._precision.left_s(SENSITIVITY_SHARE) / max(0.2, each_s)
        return int(max(1.0, min(MOST_QUESTIONS, fitting)))

    def _error(self, plan: Plan) -> float:
        """Return the error of a model that will not be raced, and delete its file, since dozens would fill a disk."""
        error = self._precision.outputs_of(plan).worst_slice_l2
        self._precision.plan_runs.models.drop(plan)
        return error

    def _known(self, keys: Mapping[str, str]) -> list[LayerError]:
        """Return layer errors that earlier sessions stored for layers of the same structure; [] without a store."""
        folder = self._precision.baseline.log.folder
        return layer_errors.load(folder, keys) if folder else []

    def _keep(self, keys: Mapping[str, str], kinds: tuple[str, ...], error_ratio: float) -> None:
        folder = self._precision.baseline.log.folder
        if folder and math.isfinite(error_ratio):
            layer_errors.keep(folder, keys, LayerError(kinds=kinds, error_ratio=error_ratio))

    def _timed(self, plan: Plan, path: Path, groups: Sequence[LayerGroup]) -> tuple[list[float], list[float]]:
        """Return nanoseconds per run of each group, (in float, quantized); two empty lists without a profile."""
        # A provider that compiles the graph shows one node in its profile, and no layers.
        if targets.target_of(plan).provider.compiles:
            return [], []
        if not self._precision.holds(PROFILED_TRIALS * self._precision.baseline.pilot.first.elapsed_ns / 1e9):
            return [], []
        self._precision.watch.line(steps_words.PROFILING)
        before, after = self._times(self._precision.baseline, plan, path)
        if not before:
            return [], []
        return _by_group(self._precision.model, before, groups), _by_group(open_model(path).ir, after, groups)

    def _judged(self, model: QuantizedModel) -> float:
        """Return the error, lowered to the limit if the outputs are within the tolerance, else raised above it."""
        limit = self._precision.limit
        # The walk compares errors with one number, but rows or a metric may decide whether outputs are within
        # the tolerance.
        if model.outputs is not None and model.outputs.ok:
            return min(model.error, limit)
        return max(model.error, math.nextafter(limit, math.inf))

    def _measured(self, of: Sensitivity, kept: Kept) -> float | None:
        """Create and compare the model that keeps `kept` in float and return its error; None if no time is left."""
        precision = self._precision
        if kept >= of.everything:
            return 0.0  # the float model, which is no candidate
        if not precision.holds_step:
            return None
        precision.watch.line(steps_words.measuring(len(kept), len(of.groups)))
        # If a question of 4 layers saves 8 us, 2 of them in float lose 4 us.
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
        """Measure models with more and more layers in float, until the tolerance and the limits in `CLASSES` hold."""
        walk, limit = of.walk, self._precision.limit
        if walk.free:
            walk.error(walk.step(walk.free))
        kept = frozenset[str]() if walk.errors[frozenset()] <= limit else walk.within(limit)
        if kept:
            kept = walk.refined(kept, limit)
        # Also each set of layers alone: the walk measures only the last of them without the others.
        useless = all(question.error > limit or question.saved_ns <= 0 for question in of.questions)
        ended = (kept is None or kept >= of.everything) and not self._precision.missed_steps
        of.all_float = ended and useless
        for other in CLASSES:
            if other != limit:
                walk.within(other)


def _file_of(plan: Plan, kind: str) -> str:
    """Return the key for stored layer errors: a hash of the layers' structure, the method and the provider."""
    elsewhere = plan.provider_names if plan.providers else ()
    return digest(plan.rewrites[-1].name, kind, *elsewhere)[:32]


def _by_group(model: ir.Model, times_ns: Mapping[str, float], groups: Sequence[LayerGroup]) -> list[float]:
    of_groups = [0.0] * len(groups)
    for node, place in group_of_nodes(model.graph, groups).items():
        of_groups[place] += times_ns.get(name_of(node), 0.0)
    return of_groups


def _touched(graph: ir.Graph, groups: Sequence[LayerGroup]) -> set[int]:
    """Return the indices of the groups with a quantized node in the graph."""
    of = group_of_nodes(graph, groups)
    return {of[node] for node in graph if node in of and rewrites.in_fewer_bits(node)}
