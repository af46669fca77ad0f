"""The nodes that an execution provider supports, in how many regions, and the nodes between them."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.machine import Runtime
from ortune.records.plan import RewriteSpec

ReasonCode = Literal[
    "not-listed", "fused-operator", "old-opset", "behind-stop", "unknown-shape", "dynamic-shape", "empty-shape",
    "large-dimension", "rank", "shape", "element-type", "not-constant", "constant-value", "attribute", "inputs",
    "outputs", "quantized-form", "neighbour", "alone", "refused",
]  # fmt: skip
"""Why a provider leaves a node to the CPU; "refused" is that of a provider that was asked and gave no reason."""

PartitionVerdict = Literal["good", "maybe", "poor", "none"]
"""How much of the work a provider takes, and in how few regions."""


class NodeReason(Record, frozen=True, kw_only=True):
    """Why an execution provider leaves a node to the CPU.

    Attributes:
        detail: The property concerned, as data: "mode=reflect", "input 1", "rank 5", "int64"; "" if the code is enough.
    """

    code: ReasonCode
    detail: str = ""


class LeftOperator(Record, frozen=True, kw_only=True):
    """Nodes of one operator that a provider leaves to the CPU for one reason.

    Attributes:
        op_type: With its domain, if that is not ONNX's.
        nodes: Names of the nodes.
    """

    op_type: str
    reason: NodeReason
    nodes: tuple[str, ...]


class PartitionRegion(Record, frozen=True, kw_only=True):
    """A connected part of the graph that the provider runs.

    Attributes:
        operators: Number of nodes by operator, the most frequent first.
        work_ratio: Share of the model's floating-point operations, or of its bytes if it has none.
        inputs, outputs: Tensors that cross its boundary, without constants.
        input_bytes, output_bytes: Their size; None if a size is unknown.
        behind: CPU nodes between the earlier regions and this one.
        places: Positions of its nodes in execution order, as (first, number) of consecutive ones; for the drawing.
    """

    nodes: tuple[str, ...]
    operators: dict[str, int]
    work_ratio: float
    inputs: int
    outputs: int
    input_bytes: int | None
    output_bytes: int | None
    behind: tuple[LeftOperator, ...] = ()
    places: tuple[tuple[int, int], ...] = ()


class PartitionState(Record, frozen=True, kw_only=True):
    """The supported part of the model in one state.

    Attributes:
        name: Unchanged, with fixed input shapes, or also with rewrites.
        n_nodes: Nodes of the main graph at ONNX Runtime's level basic.
        n_taken: Supported nodes.
        copied_bytes: Bytes that cross region boundaries per run; None if a size is unknown.
    """

    name: Literal["as-is", "fixed-shapes", "rewritten"]
    verdict: PartitionVerdict
    regions: int
    n_nodes: int
    n_taken: int
    work_ratio: float
    copied_bytes: int | None
    rewrites: tuple[RewriteSpec, ...] = ()


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
        left: What stays on the CPU in that state, the most frequent first.
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
