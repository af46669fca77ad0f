"""Result of ``ortune partition``: nodes and regions that each provider supports."""

from __future__ import annotations

from ortune.records import (
    LeftOperator,
    PartitionRegion,
    PartitionState,
    RewriteSpec,
    Runtime,
)
from ortune.records.base import Record


class CostliestOperator(Record, frozen=True, kw_only=True):
    """The operator that splits the model most.

    Attributes:
        regions_without: Number of regions if its nodes were supported.
        rewrite: The rewrite that replaces it; None if there is none.
        regions_after: Number of regions after this rewrite alone; None without one.
    """

    left: LeftOperator
    regions_without: int
    rewrite: RewriteSpec | None = None
    regions_after: int | None = None


class ProviderAgreement(Record, frozen=True, kw_only=True):
    """The operator table compared with the provider itself, if it runs here.

    Attributes:
        asked: The provider's build and version.
        n_nodes: Number of compared nodes.
        n_equal: Number of nodes with the same result.
        differing: Nodes that only one of the two supports, by operator: "+" if the provider supports more.
        n_removed: Further nodes that ONNX Runtime removes before the provider runs any, such as Transposes that cancel
            out.
        not_compiled: Why the provider did not compile the model; its validation of each node was compared instead. ""
            if it did compile it.
    """

    asked: str
    n_nodes: int
    n_equal: int
    differing: dict[str, int] = {}
    n_removed: int = 0
    not_compiled: str = ""


class ProviderPartition(Record, frozen=True, kw_only=True):
    """The part of a model that one execution provider supports.

    Attributes:
        provider: The value of ``--for``.
        release: ONNX Runtime release of the operator table.
        source: Source of the operator table.
        states: The unchanged model and, if they differ, the model with fixed shapes and with rewrites.
        regions: Regions of the first state, or of the model with fixed shapes if its shapes are dynamic.
        left: Operators that stay on the CPU in that state, the most frequent first.
        n_nodes: Number of nodes in that state.
    """

    provider: str
    release: str
    source: str
    states: tuple[PartitionState, ...]
    regions: tuple[PartitionRegion, ...] = ()
    left: tuple[LeftOperator, ...] = ()
    costliest: CostliestOperator | None = None
    agreement: ProviderAgreement | None = None
    n_nodes: int = 0


class PartitionResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune partition --json``.

    Attributes:
        inputs: The shapes used for dynamic dimensions, in the form of ``--shape``.
        headline: The answer in one sentence.
    """

    providers: tuple[ProviderPartition, ...]
    inputs: tuple[str, ...] = ()
    runtime: Runtime
    headline: str = ""
    notes: tuple[str, ...] = ()
