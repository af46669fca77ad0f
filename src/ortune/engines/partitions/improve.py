"""Finds the rewrites with which a provider takes more of a model, or takes it in fewer regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from ortune import rewrites
from ortune.engines.partitions.partition import Partition, partition
from ortune.engines.partitions.summary import Work, state
from ortune.graph.model.garbage import without_collection
from ortune.graph.shapes.known import Values
from ortune.records import LeftOperator, PartitionState, RewriteSpec, Workload

Proposals = dict[str, Sequence[rewrites.Proposed]]
"""Proposed rewrites of one model, by the name of the rewrite."""

_SHARE = 0.005
"""Fraction of the work that a rewrite must add if it does not reduce the number of regions."""


class InferenceCache(Protocol):
    """Caches inference on a model and its rewritten copies, since each pass is expensive and all providers need it."""

    def shares(self, model: ir.Model) -> Work:
        """Return each node's fraction of the model's work."""
        ...

    def values(self, model: ir.Model) -> Values:
        """Return the shapes and types of the model's values."""
        ...

    def rewritten(self, model: ir.Model, specs: Sequence[RewriteSpec]) -> ir.Model | None:
        """Return a copy with these rewrites; None if one of them changes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovedModel:
    """A model after rewrites that let an execution provider support more nodes.

    Attributes:
        specs: The rewrites in order of application.
        state: The state of the partition after the rewrites.
    """

    specs: tuple[RewriteSpec, ...]
    state: PartitionState


class Candidates:
    """The exact rewrites that apply to a model for a target, each with its own rewritten copy.

    Args:
        model: The model; it is not changed.
        workload: Inputs of the model.
        target: Target of the model.
        inferred: Cached inference on models.
        known: Proposals of rewrites for other targets; extended in place.
    """

    def __init__(
        self, model: ir.Model, workload: Workload, target: str, inferred: InferenceCache, known: Proposals
    ) -> None:
        with rewrites.remembering():
            called = rewrites.proposals(model, (), workload=workload, target=target, known=known)
            specs = [spec for spec, _ in called if rewrites.find(spec.name).change is not None]
            copies = {
                spec.name: (spec, inferred.rewritten(model, (spec,))) for spec in rewrites.in_order(specs)
            }
        self.alone = {name: (spec, copy) for name, (spec, copy) in copies.items() if copy is not None}


@without_collection()
def rewritten(model: ir.Model, specs: Sequence[RewriteSpec]) -> ir.Model | None:
    """Return a copy with these rewrites; None if one of them changes nothing."""
    copy = model.clone()
    for spec in specs:
        if not rewrites.find(spec.name).apply(copy, spec.params).modified:
            return None
    return copy


class CandidateEffects:
    """The effect of the candidates on one provider's partition.

    Args:
        candidates: The rewrites.
        parts: The partition without them.
        before: The state of that partition.
        model: The partitioned model.
        release: Release of ONNX Runtime.
        inferred: Cached inference on models.
    """

    def __init__(
        self,
        candidates: Candidates,
        parts: Partition,
        before: PartitionState,
        model: ir.Model,
        release: str,
        inferred: InferenceCache,
    ) -> None:
        self._found, self._before, self._model = parts, before, model
        self._release, self._inferred = release, inferred
        self._alone = {
            name: (spec, *self._after(copy, (spec,))) for name, (spec, copy) in candidates.alone.items()
        }

    def _after(self, copy: ir.Model, specs: Sequence[RewriteSpec]) -> tuple[Partition, PartitionState]:
        parts = partition(copy, self._found.format, self._release, self._inferred.values(copy))
        return parts, state(parts, self._inferred.shares(copy), "rewritten", specs)

    def replacement(self, left: LeftOperator) -> tuple[RewriteSpec, int] | None:
        """Return the rewrite that leaves fewest of an operator's nodes on the CPU, and the resulting number of regions.

        None if no rewrite reduces their number.
        """
        before = _count(self._found, left)
        choices = [
            (_count(parts, left), after.regions, spec)
            for spec, parts, after in self._alone.values()
            if _count(parts, left) < before
        ]
        if not choices:
            return None
        _, regions, spec = min(choices, key=lambda choice: choice[:2])
        return spec, regions

    def together(self) -> ImprovedModel | None:
        """Return the model after all rewrites that help, which are added one at a time; None if none helps."""
        kept: tuple[RewriteSpec, ...] = ()
        now = self._before
        for spec, _, alone in self._alone.values():
            if not _better(alone, self._before):
                continue
            copy = self._inferred.rewritten(self._model, (*kept, spec)) if kept else None
            after = self._after(copy, (*kept, spec))[1] if copy is not None else alone
            if (copy is not None or not kept) and _better(after, now):
                kept, now = (*kept, spec), after
        return ImprovedModel(specs=kept, state=now) if kept else None


def _count(parts: Partition, left: LeftOperator) -> int:
    return sum(1 for node in parts.left if node.op_type == left.op_type.rpartition(":")[2])


def _better(after: PartitionState, before: PartitionState) -> bool:
    """Return whether the provider takes more of the work, or as much in fewer regions."""
    if after.work_ratio > before.work_ratio + _SHARE:
        return True
    return after.work_ratio >= before.work_ratio - _SHARE and 0 < after.regions < before.regions
