"""How much ONNX Runtime rewrites the graph when the session is created.

What it is: off, basic (folding, redundant nodes), extended (fusions), layout (also NCHWc) or all.
Why it costs: lower levels keep nodes that could be fused; but a fused kernel can be slower than the nodes that it
    replaced, so that the highest level is not always the fastest.
Evidence: operators of the optimised graph by level; latency by level.
Fix and its safety: the level that is measured to be fastest; exact (sums may be reassociated).
Example: ``--set level=basic``
References: ONNX Runtime documentation, "Graph Optimizations"; microsoft/onnxruntime#10538.
"""

from ortune.records import Knob

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
    summary="how much the graph is rewritten at session creation",
    group="first",
    per_model=True,
)
