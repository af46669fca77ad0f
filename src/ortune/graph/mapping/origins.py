"""Assignment of original steps to the steps of the optimized graph that replace them."""

from __future__ import annotations

from collections.abc import Iterable

from ortune.graph.attributes import signature, small_contents
from ortune.graph.mapping import names
from ortune.graph.mapping.carried_values import NOTHING, CarriedValues
from ortune.graph.mapping.model_view import GraphStep, ModelView
from ortune.graph.mapping.segments import QUANTIZERS, Segments
from ortune.graph.model.graphs import op_set

VIEWS = op_set("Cast Reshape Squeeze Unsqueeze Flatten Transpose Slice Expand Concat")
"""Operators that the optimizer removes if they have no effect, cancel each other, or are moved elsewhere."""

_HEAVY = op_set(
    "Conv ConvTranspose ConvInteger QLinearConv MatMul MatMulInteger QLinearMatMul MatMulNBits Gemm Einsum "
    "LSTM GRU RNN Attention MultiHeadAttention GroupQueryAttention"
)
"""Operators that account for nearly all of the work of a fused node."""

_LIGHTER = op_set("Softmax LayerNormalization RMSNormalization GroupNormalization InstanceNormalization")

_TAKES_VIEWS = op_set(
    "FusedMatMul Gemm FusedGemm QGemm Attention QAttention MultiHeadAttention GroupQueryAttention "
    "DecoderMaskedMultiHeadAttention EmbedLayerNormalization ReorderInput ReorderOutput"
)
"""Operators into which a Transpose or Reshape can be fused."""


_MOST_TOGETHER = 1000
"""Maximum number of steps between known values for which the order of the steps is considered."""


class OriginSearch:
    """The original steps that each step of the optimized graph replaces.

    A step with a known output replaces all original steps between that value and the nearest other known values. A
    step without a known output is a helper of the steps that read its output, and shares their originals.

    Attributes:
        originals: Original steps by step (inserted ones excluded), in model order; empty if none is known.
        left_out: Original steps that were removed next to a step that remains.
        merged: Original steps that duplicated another original step, which remains in their place.
    """

    def __init__(self, optimised: ModelView, carried: CarriedValues, segments: Segments) -> None:
        self.originals: dict[GraphStep, list[GraphStep]] = {}
        self.left_out: set[GraphStep] = set()
        self.merged: set[GraphStep] = set()
        self._carried, self._segments = carried, segments
        self._cone: dict[GraphStep, set[GraphStep]] = {}
        self._helpers: list[GraphStep] = []
        for step in optimised.steps:
            if step not in carried.inserted:
                self.originals[step] = []
                self._look(step)
        # Segments between known values are distributed first, since they are certain. Then steps are moved from
        # those that cannot contain them, and from several steps to a single owner; twice, because one correction
        # enables others.
        self._assign(self._owners(optimised))
        self._hand_back()
        for step, sources in self.originals.items():
            self.originals[step] = self._trimmed(step, sources)
        self._leave_to_owners()
        self._leave_to_owners()
        self._add_twins()

    def _owners(self, optimised: ModelView) -> dict[GraphStep, list[GraphStep]]:
        """Map each step to the steps with known outputs that depend on it through unknown values only."""
        owners_of: dict[GraphStep, list[GraphStep]] = {}
        for step in reversed(optimised.steps):
            users = [user for value in step.outputs for user in value.users]
            owners = [[user] if user in self._cone else owners_of.get(user, []) for user in users]
            owners_of[step] = list(dict.fromkeys(owner for some in owners for owner in some))
        return owners_of

    def _look(self, step: GraphStep) -> None:
        targets = [was for value in step.outputs if (was := self._carried.get(value)) is not None]
        if not targets:
            self._helpers.append(step)
            return
        segment = self._segments.segment(targets)
        ends = {value.step for value in targets}
        if not all(end is None or self._segments.is_static(end) for end in ends):
            # Steps that depend only on shapes and constants were computed beforehand.
            segment = {
                s for s in segment if not self._segments.is_static(s) or s in ends or _reads_stored(step, s)
            }
        self._cone[step] = segment

    def _assign(self, owners_of: dict[GraphStep, list[GraphStep]]) -> None:
        groups: dict[GraphStep, list[GraphStep]] = {owner: [] for owner in self._cone}
        idle: list[GraphStep] = []
        for helper in self._helpers:
            owners = owners_of[helper]
            if len(owners) == 1:
                groups[owners[0]].append(helper)
            elif owners:
                self.originals[helper] = ordered(_shared(helper, [self._cone[owner] for owner in owners]))
            else:
                idle.append(helper)
        for owner, helpers in groups.items():
            self._split(owner, sorted([*helpers, owner], key=lambda step: step.order))
        for helper in idle:
            # Without a reader, it is part of an expanded operator.
            beside = [
                self.originals[v.step]
                for v in helper.reads()
                if v.step is not None and self.originals.get(v.step)
            ]
            self.originals[helper] = list(beside[0]) if beside else []

    def _split(self, owner: GraphStep, steps: list[GraphStep]) -> None:
        """Distribute the original steps of a segment among an owner and its helpers: by operator, then by order."""
        segment = self._cone[owner]
        if len(steps) == 1:
            self.originals[steps[0]] = ordered(segment)
            return
        # The producer of the known value belongs to the owner.
        ends = {carried.step for value in owner.outputs if (carried := self._carried.get(value)) is not None}
        is_view = owner.op_type in VIEWS
        assigned = {
            end: owner for end in ends if end in segment and not (is_view and end.op_type not in VIEWS)
        }
        settled = any(end.op_type == owner.op_type for end in assigned)
        for operator in {step.op_type for step in steps}:
            # An owner that already has its own operator at the end of the segment is not matched again.
            mine = [s for s in steps if s.op_type == operator and not (settled and s is owner)]
            theirs = ordered(s for s in segment if s.op_type == operator and s not in assigned)
            # Equal counts of one operator are matched in order, since the optimizer preserves the order of copied
            # nodes.
            if len(mine) == len(theirs):
                assigned.update(zip(theirs, mine, strict=True))
        bare = [step for step in steps if step not in assigned.values()]
        if max(len(steps), len(segment)) > _MOST_TOGETHER:
            for was, step in assigned.items():
                self.originals[step].append(was)
            return
        around = _Around(assigned, segment, steps, self._carried.inserted)
        for was in ordered(segment):
            if was in assigned:
                self.originals[assigned[was]].append(was)
                continue
            fitting = [step for step in bare if around.fits(was, step)]
            # Unmatched originals go to steps without any that fit the order, since parts were fused into these,
            # else to the neighbour that reads them.
            nearest = around.nearest(was) or steps[-1]
            if not fitting and nearest.op_type in VIEWS and was.op_type not in VIEWS:
                fitting = bare  # it was moved past a step that only moves data
            for step in fitting or [nearest]:
                self.originals[step].append(was)
        for step in bare:
            if not self.originals[step]:
                self.originals[step] = ordered(segment)
        for step in steps:
            self.originals[step].sort(key=lambda s: s.order)

    def _hand_back(self) -> None:
        """Move computing originals from a step that only moves data to the preceding step that fused them."""
        for step, sources in self.originals.items():
            if step.op_type not in VIEWS or not any(was.op_type == step.op_type for was in sources):
                continue
            others = [was for was in sources if was.op_type not in VIEWS | NOTHING | QUANTIZERS]
            before = step.inputs[0].step if others and step.inputs and step.inputs[0] is not None else None
            while before is not None and (before in self._carried.inserted or before.op_type in VIEWS):
                before = before.inputs[0].step if before.inputs and before.inputs[0] is not None else None
            if before is not None and before in self.originals:
                self.originals[before] = ordered({*self.originals[before], *others})
                self.originals[step] = [was for was in sources if was not in others]

    def _leave_to_owners(self) -> None:
        """Remove originals from steps if another step has the same operator, or a strict subset of the originals."""
        sets = {step: set(sources) for step, sources in self.originals.items()}
        for was, steps in self._steps_by_original().items():
            owners = [step for step in steps if step.op_type == was.op_type] or [
                step
                for step in steps
                if all(sets[step] < sets[other] for other in steps if other is not step)
            ]
            for step in steps:
                rest = [other for other in self.originals[step] if other is not was]
                if owners and rest and step not in owners:
                    self.originals[step] = rest

    def _steps_by_original(self) -> dict[GraphStep, list[GraphStep]]:
        """Map each original step to the optimized steps that contain it."""
        where: dict[GraphStep, list[GraphStep]] = {}
        for step, sources in self.originals.items():
            for was in sources:
                where.setdefault(was, []).append(step)
        return where

    def _add_twins(self) -> None:
        """Assign each removed duplicate to the steps that contain the step it duplicates."""
        where = self._steps_by_original()
        for was in list(where):
            # ONNX Runtime computes equal nodes once, so the time of the remaining one covers all of them.
            for twin in self._segments.twins.get(was, ()):
                if twin not in where and twin not in self.left_out:
                    self.merged.add(twin)
                    for step in where[was]:
                        self.originals[step] = ordered({*self.originals[step], twin})

    def _trimmed(self, step: GraphStep, sources: list[GraphStep]) -> list[GraphStep]:
        """Return the sources that ``step`` itself replaces, and record the others in ``left_out``."""
        same = [was for was in sources if was.op_type == step.op_type]
        working = [was for was in sources if was.op_type not in NOTHING] or same or sources
        if not step.bodies:
            # An If is replaced by its branch.
            working = [was for was in working if not was.bodies] or working
        rest = [was for was in working if was.op_type != step.op_type]
        if len(same) == 1 and all(was.op_type in VIEWS for was in rest) and _is_unchanged(step, same[0]):
            working = same
        elif step.op_type not in _TAKES_VIEWS | VIEWS and any(was.op_type not in VIEWS for was in working):
            working = self._without_views_around(working)
        self.left_out.update(was for was in sources if was not in working)
        return working

    def _without_views_around(self, steps: list[GraphStep]) -> list[GraphStep]:
        """Remove steps that only move data from both ends; they were pushed past the fused step or cancelled."""
        kept = set(steps)
        while True:
            ends = {
                was
                for was in kept
                if was.op_type in VIEWS
                and (
                    not kept.intersection(value.step for value in was.reads() if value.step is not None)
                    or not kept.intersection(user for value in was.outputs for user in value.users)
                )
            }
            if not ends:
                return [was for was in steps if was in kept]
            kept -= ends


def heaviest_first(operator: str, steps: Iterable[GraphStep]) -> list[GraphStep]:
    """Return the steps in model order, except that the step that best describes the fused node comes first."""
    # The fused node's operator, then heavy operators, then normalizations, then any that computes.
    in_order = ordered(steps)
    tiers = ({operator}, _HEAVY, _LIGHTER, {was.op_type for was in in_order} - VIEWS - QUANTIZERS)
    first = next((was for tier in tiers for was in in_order if was.op_type in tier), None)
    return in_order if first is None else [first, *(was for was in in_order if was is not first)]


def _reads_stored(step: GraphStep, was: GraphStep) -> bool:
    """Return whether a fused operator reads stored integers in place of the original DequantizeLinear."""
    return was.op_type == "DequantizeLinear" and step.op_type not in {
        user.op_type for user in was.outputs[0].users
    }


def _is_unchanged(step: GraphStep, was: GraphStep) -> bool:
    """Return whether a step is an unchanged original: nothing was fused into its attributes or inputs."""
    mine, theirs = (signature(one.node, small_contents) for one in (step, was))
    is_same = mine == theirs or step.domain == names.NCHWC or bool(step.bodies)
    return is_same and len(step.inputs) == len(was.inputs)


def _shared(helper: GraphStep, segments: list[set[GraphStep]]) -> set[GraphStep]:
    """Return the steps that are in all segments; if any of these has the helper's operator, only those."""
    common = set.intersection(*segments)
    alike = {was for was in common if was.op_type == helper.op_type}
    return alike or common


class _Around:
    """Relative order of a segment's steps and the steps that were already assigned."""

    def __init__(
        self,
        assigned: dict[GraphStep, GraphStep],
        segment: set[GraphStep],
        steps: list[GraphStep],
        inserted: set[GraphStep],
    ) -> None:
        self._assigned = assigned
        self._before = {was: _before(was, segment) for was in segment}
        within = inserted.union(steps)
        self._before |= {step: _before(step, within) for step in steps}

    def fits(self, was: GraphStep, step: GraphStep) -> bool:
        """Return whether assigning ``was`` to ``step`` is consistent with the order of existing assignments."""
        return not any(
            (other in self._before[was] and step in self._before[taker])
            or (was in self._before[other] and taker in self._before[step])
            for other, taker in self._assigned.items()
        )

    def nearest(self, was: GraphStep) -> GraphStep | None:
        """Return the step assigned to the first user of ``was``, else to the last step it depends on, else None."""
        after = [other for other in self._assigned if was in self._before[other]]
        if after:
            return self._assigned[min(after, key=lambda step: step.order)]
        ahead = [other for other in self._assigned if other in self._before[was]]
        return self._assigned[max(ahead, key=lambda step: step.order)] if ahead else None


def _before(step: GraphStep, within: set[GraphStep]) -> set[GraphStep]:
    """Return all steps within a set that a step depends on through that set."""
    ancestors: set[GraphStep] = set()
    waiting = [step]
    while waiting:
        for value in waiting.pop().reads():
            producer = value.step
            if producer is not None and producer in within and producer not in ancestors:
                ancestors.add(producer)
                waiting.append(producer)
    return ancestors


def ordered(steps: Iterable[GraphStep]) -> list[GraphStep]:
    """Return the steps in model order."""
    return sorted(steps, key=lambda step: step.order)
