"""What an execution provider takes of a model, in how many regions, and what stands between them."""

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
    """Why a provider leaves a node to the CPU.

    Attributes:
        detail: What of the node it is about, as data: "mode=reflect", "input 1", "rank 5", "int64"; "" where the code
            says all.
    """

    code: ReasonCode
    detail: str = ""


class LeftOperator(Record, frozen=True, kw_only=True):
    """Nodes of one operator that a provider leaves for one reason.

    Attributes:
        op_type: With its domain, where that is not ONNX's.
        nodes: By name.
    """

    op_type: str
    reason: NodeReason
    nodes: tuple[str, ...]


class PartitionRegion(Record, frozen=True, kw_only=True):
    """Nodes that a provider is given together.

    Attributes:
        operators: Nodes by operator, the most frequent first.
        work_ratio: Share of the model's floating-point operations; of its bytes where it has none.
        inputs, outputs: Tensors that cross its edge, constants apart.
        input_bytes, output_bytes: Of these; None where a size is not known.
        behind: What is left to the CPU between the regions before and this one.
        places: Where its nodes are in the order in which the graph runs, as (first, number) of those that follow each
            other; what is drawn.
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
    """What a provider takes of the model in one state.

    Attributes:
        name: As it is; with its input shapes fixed; with rewrites besides.
        n_nodes: Of the main graph, at ONNX Runtime's level basic.
        n_taken: Of these.
        copied_bytes: That cross the edges of regions, one run; None where a size is not known.
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
        regions_without: Were its nodes taken.
        rewrite: That replaces it; None where none does.
        regions_after: After this rewrite alone; None without one.
    """

    left: LeftOperator
    regions_without: int
    rewrite: RewriteSpec | None = None
    regions_after: int | None = None


class ProviderAgreement(Record, frozen=True, kw_only=True):
    """The table's answer beside that of the provider itself, where it runs here.

    Attributes:
        asked: The provider's build and its version.
        n_nodes: That both answered about.
        n_equal: Of these, alike.
        differing: Nodes that one takes and the other leaves, by operator: "+" where the provider takes more.
        n_removed: Nodes besides, which ONNX Runtime removes before the provider runs any: Transposes that cancel out.
    """

    asked: str
    n_nodes: int
    n_equal: int
    differing: dict[str, int] = {}
    n_removed: int = 0


class ProviderPartition(Record, frozen=True, kw_only=True):
    """What one provider takes of a model.

    Attributes:
        provider: As ``--for`` has it.
        release: Of ONNX Runtime, whose operators were looked up.
        source: Where the operators come from.
        states: As it is, and where they differ, with fixed shapes and after rewrites.
        regions: Of the first state, or where its shapes are open, of the model with fixed ones.
        left: What stays on the CPU there, the most frequent first.
        n_nodes: Of that graph.
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
        inputs: The shapes that were taken for open ones, as ``--shape`` has them.
        without_table: Empty since every provider has a table.
        headline: The answer in one sentence.
    """

    providers: tuple[ProviderPartition, ...]
    inputs: tuple[str, ...] = ()
    without_table: tuple[str, ...] = ()
    runtime: Runtime
    headline: str = ""
    notes: tuple[str, ...] = ()
