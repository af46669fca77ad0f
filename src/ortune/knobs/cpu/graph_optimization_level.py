"""How much ONNX Runtime rewrites the graph when the session is created.

What it is: ``disable``, ``basic`` (folding, redundant nodes), ``extended`` (fusions), ``layout`` (also NCHWc) or
    ``all``.
Why it costs: lower levels keep nodes that could be fused. A fused kernel can be slower than the nodes that it replaced,
    so the highest level is not always the fastest.
Evidence: operators of the optimised graph by level; latency by level.
Fix and its safety: the level that measures fastest; exact (sums may be reassociated).
Example: ``--set level=basic``
References: ONNX Runtime documentation, "Graph Optimizations"; microsoft/onnxruntime#10538.
"""

from __future__ import annotations

from ortune.knobs.facts import ModelFacts
from ortune.knobs.knob import OFTEN, Knob

_LAYOUT = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "FusedConv",
    "QLinearConv", "ConvInteger", "QLinearAveragePool", "QLinearGlobalAveragePool",
)  # fmt: skip


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    """Lower levels that can differ from the default: only layouts lie above ``extended``, only float16 above those."""
    levels = ["basic"] if model.n_nodes > 1 else []
    if model.float16 or model.has(*_LAYOUT):
        levels.append("extended")
    if model.float16:
        levels.append("layout")
    return dict.fromkeys([*levels, "disable"], OFTEN)


KNOB = Knob(
    name="graph_optimization_level",
    aliases=("level", "opt"),
    channel="session_option",
    key="graph_optimization_level",
    kind="choice",
    choices=("disable", "basic", "extended", "layout", "all"),
    spelled=(
        ("disable", "ORT_DISABLE_ALL"),
        ("basic", "ORT_ENABLE_BASIC"),
        ("extended", "ORT_ENABLE_EXTENDED"),
        ("layout", "ORT_ENABLE_LAYOUT"),
        ("all", "ORT_ENABLE_ALL"),
    ),
    default="all",
    summary="graph optimisation level at session creation",
    worth=_worth,
    priors={
        "latency": {"basic": 0.4, "extended": 0.35, "layout": 0.1, "disable": 0.0},
        "memory": {"disable": 0.0},
        "cold-start": {"basic": 0.7, "disable": 0.6, "extended": 0.4},
    },
    triton="optimization.graph.level",
    # No level is all optimisations, and the level of layouts has no number.
    triton_values={
        "ORT_ENABLE_BASIC": "-1",
        "ORT_ENABLE_EXTENDED": "1",
        "ORT_DISABLE_ALL": "2",
        "ORT_ENABLE_ALL": "",
    },
)
