"""What an execution provider takes of a model, in how many regions, and what stands between them."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

ReasonCode = Literal[
    "not-listed", "fused-operator", "old-opset", "inside-subgraph", "behind-stop", "unknown-shape", "dynamic-shape",
    "empty-shape", "large-dimension", "rank", "shape", "element-type", "not-constant", "constant-value", "attribute",
    "inputs", "outputs", "quantized-form", "neighbour", "alone",
]  # fmt: skip
"""Why a provider leaves a node to the CPU."""


class NodeReason(Record, frozen=True, kw_only=True):
    """Why a provider leaves a node to the CPU.

    Attributes:
        detail: What of the node it is about, as data: "mode=reflect", "input 1", "rank 5", "int64"; "" where the code
            says all.
    """

    code: ReasonCode
    detail: str = ""
