"""A part of the run is casts, transposes and quantizing.

What it is: Cast, Transpose, reordering to and from blocked layouts, QuantizeLinear and DequantizeLinear.
Why it costs: every value is read and written once more, and nothing is computed.
Evidence: the time of these nodes in a profile.
Fix and its safety: advice: one type and one layout throughout; an exporter that keeps the layout.
Example: a model converted from channels-last, with a Transpose around every convolution
References: ONNX Runtime documentation, "Graph optimizations", section on layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

CODE = "LAY002"

_WORTH_SAYING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    share = facts.share("casts-and-layout")
    if share > _WORTH_SAYING:
        found = [node for node in facts.nodes() if node.category == "casts-and-layout"]
        names = ", ".join(called(node) for node in found[:NAMED])
        yield Finding(
            code=CODE,
            what=f"{percent(share)} of the run is casts, transposes and quantizing: {names}",
            where=place(found),
            share_ratio=share,
        )
