"""Parallel execution is enabled, but the operators form a chain.

What it is: execution_mode=parallel with a model in which most convolutions and matrix multiplications form one
    chain.
Why it costs: the nodes still run one after another, while a second thread pool takes CPUs away from the threads that
    work inside a node.
Evidence: how many of the convolutions and matrix multiplications are on the longest path.
Fix and its safety: exact: execution_mode=sequential.
Example: ``--set execution_mode=sequential``
References: microsoft/onnxruntime#23303, #11668, #12891.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.named import EXECUTION_MODE
from ortune.graph.model.graphs import op_set
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "THR004"
TIER = "preview"

_CHAIN = 0.85
_LARGE = op_set(
    "Conv ConvTranspose Gemm MatMul LSTM GRU RNN Attention QLinearConv QLinearMatMul MatMulInteger MatMulNBits"
)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if parallel execution is set and large operators form a chain."""
    if facts.model is None or facts.plan.settings.get(EXECUTION_MODE.name) != "parallel":
        return
    total, longest = _chain(facts.model.ir.graph)
    if total and longest >= _CHAIN * total:
        why = (
            f"{longest} of {total} large operators depend on each other in one chain"
            if total > 1
            else "the graph has only one large operator"
        )
        yield Finding(
            code=CODE,
            what=f"parallel execution is enabled, but {why}",
            plan=Plan(settings={EXECUTION_MODE.name: "sequential"}),
            safety="exact",
        )


def _chain(graph: ir.Graph) -> tuple[int, int]:
    """Return the number of large operators, and the largest number on one path through the graph."""
    depth: dict[ir.Value, int] = {}
    total = longest = 0
    for node in graph:
        large = node.op_type in _LARGE
        here = large + max((depth.get(value, 0) for value in node.inputs if value is not None), default=0)
        total, longest = total + large, max(longest, here)
        depth.update(dict.fromkeys(node.outputs, here))
    return total, longest
