"""Casts, transposes and quantization account for part of the run.

What it is: Cast, Transpose, conversions to and from blocked layouts, QuantizeLinear and DequantizeLinear.
Why it costs: every value is read and written once more, and nothing is computed.
Evidence: the time of these nodes in a profile.
Fix and its safety: advice: use one type and one layout throughout, and an exporter that keeps the layout.
Example: a model converted from channels-last, with a Transpose around every convolution
References: ONNX Runtime documentation, "Graph optimizations", section on layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._category import part_of_run
from ortune.rules.facts import Facts

CODE = "LAY002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if casts, transposes and quantization take more than 5 % of the profiled run."""
    return part_of_run(facts, CODE, "casts-and-layout", "spent in casts, transposes and quantization")
