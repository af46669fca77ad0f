"""Inputs are arrays that are not contiguous, and copying them costs time.

What it is: calls with an array that is a transposed or sliced view of another.
Why it costs: ONNX Runtime copies such an array before each call. For small arrays this is nothing.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: create the array in the order of the model, or reuse a contiguous buffer.
Example: ``image.transpose(2, 0, 1)[None]`` as the input
References: NumPy documentation, "numpy.ascontiguousarray".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_calls
from ortune.rules.facts import Facts

CODE = "APP013"
TIER = "if-measured"
_FIX = "write into a contiguous array that is kept between calls"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that contiguous arrays save time."""
    yield from of_calls(
        facts, "strides", CODE, "input arrays are not contiguous", _FIX, lambda calls: calls.not_contiguous
    )
