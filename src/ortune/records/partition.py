"""The nodes that an execution provider supports, their regions, and the nodes between these."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.plan import RewriteSpec

ReasonCode = Literal[
    "not-listed", "fused-operator", "old-opset", "behind-stop", "unknown-shape", "dynamic-shape", "empty-shape",
    "large-dimension", "rank", "shape", "element-type", "not-constant", "constant-value", "attribute", "inputs",
    "outputs", "quantized-form", "neighbour", "alone", "refused",
]  # fmt: skip
"""Why a provider leaves a node to the CPU; "refused" if the provider itself rejected it without a reason."""

PartitionVerdict = Literal["good", "maybe", "poor", "none"]
"""Rating of a partition by the fraction of the work that the provider does and the number of regions."""


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
        op_type: The operator, with its domain if that is not ONNX's.
        nodes: Names of the nodes.
    """

    op_type: str
    reason: NodeReason
    nodes: tuple[str, ...]


class PartitionRegion(Record, frozen=True, kw_only=True):
    """A connected part of the graph that the provider runs.

    Attributes:
        operators: Number of nodes by operator, the most frequent first.
        work_ratio: Fraction of the model's floating-point operations, or of its bytes if it has none.
        inputs, outputs: Number of tensors that cross its boundary, without constants.
        input_bytes, output_bytes: Total size of these tensors; None if a size is unknown.
        behind: CPU nodes between the earlier regions and this region.
        places: Positions of its nodes in execution order, as (first, number) of consecutive ones; for the chart.
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
        n_nodes: Number of nodes of the main graph at ONNX Runtime's level basic.
        n_taken: Number of supported nodes.
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
