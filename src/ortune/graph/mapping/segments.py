"""Upstream segments of the original model, and steps that are folded when the session is created."""

from __future__ import annotations

from collections.abc import Iterable

from ortune.graph.attributes import signature, small_contents
from ortune.graph.mapping.carried_values import CarriedValues
from ortune.graph.mapping.model_view import GraphStep, ModelView, Value
from ortune.graph.model.graphs import op_set
from ortune.graph.randomness import is_random

_SHAPES = op_set("Shape Size")
QUANTIZERS = op_set("QuantizeLinear DequantizeLinear")


class Segments:
    """Upstream search from values of the original model.

    Args:
        original: The original model.
        carried: The matching of values, which is changed: a removed value is merged into an equal remaining value.

    Attributes:
        boundary: Original values that the optimized graph contains; segments end at them.
        twins: For each step, the steps that compute the same result, including itself.
    """

    def __init__(self, original: ModelView, carried: CarriedValues) -> None:
        self.boundary = carried.carried()
        self.twins: dict[GraphStep, list[GraphStep]] = {}
        self._carried = carried
        self._static: dict[GraphStep, bool] = {}
        for step in original.steps:
            self._static[step] = self._is_static(step)
        self._merge_twins(original)

    def segment(self, targets: Iterable[Value]) -> set[GraphStep]:
        """Return the steps that compute the targets from the nearest values that the optimized graph contains."""
        steps: set[GraphStep] = set()
        waiting = [value.step for value in targets]
        while waiting:
            step = waiting.pop()
            if step is None or step in steps:
                continue
            steps.add(step)
            for read in step.reads():
                value = self._carried.same(read)
                if value not in self.boundary:
                    waiting.append(value.step)
        return steps

    def is_static(self, step: GraphStep) -> bool:
        """Return whether a step depends only on constants and shapes, so it may be folded."""
        return self._static[step]

    def _is_static(self, step: GraphStep) -> bool:
        if step.op_type in _SHAPES:
            return True
        if step.bodies or is_random(step.node):
            return False
        reads = [self._carried.same(value) for value in step.reads()]
        return bool(reads) and all(
            v.constant or (v.step is not None and self._static.get(v.step, False)) for v in reads
        )

    def _merge_twins(self, original: ModelView) -> None:
        kinds: dict[tuple[object, ...], list[GraphStep]] = {}
        for step in original.steps:
            if step.bodies or is_random(step.node) or not step.outputs:
                continue
            twins = self.twins[step] = kinds.setdefault(self._key(step), [])
            twins.append(step)
        for twins in kinds.values():
            kept = next((step for step in twins if self.holds(step)), None)
            for gone in twins if kept is not None and kept.op_type not in QUANTIZERS else ():
                if not self.holds(gone) and kept is not None and len(gone.outputs) == len(kept.outputs):
                    for value, into in zip(gone.outputs, kept.outputs, strict=True):
                        self._carried.merge(value, into)

    def holds(self, step: GraphStep) -> bool:
        """Return whether the optimized graph contains an output of a step."""
        return any(self._carried.same(value) in self.boundary for value in step.outputs)

    def _key(self, step: GraphStep) -> tuple[object, ...]:
        reads = tuple(None if v is None else self._identity(self._carried.behind(v)) for v in step.inputs)
        return (step.body, step.domain, step.op_type, reads, signature(step.node, small_contents))

    def _identity(self, value: Value) -> object:
        if value.constant and value.tensor is not None:
            # Small constants are deduplicated before steps are compared.
            return small_contents(value.tensor)
        twins = self.twins.get(value.step) if value.step is not None else None
        if not twins or value.step is None:
            return value
        return (twins[0], value.step.outputs.index(value))
