"""Calls with one row follow each other, and one call with all rows takes less time.

What it is: calls of one thread and one session with a batch of 1, less than 1 ms apart, to a model with a dynamic first
    dimension.
Why it costs: each call has fixed costs, and weights are read from memory again for each row.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: collect up to 8 inputs of equal shape and call the session once. Check that the model
    computes each row independently.
Example: ``for image in images: session.run(None, {"x": image[None]})``
References: ONNX Runtime documentation, "Performance tuning".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_calls
from ortune.rules.facts import Facts

CODE = "APP015"
TIER = "if-measured"
_FIX = "call the session once for up to 8 inputs of equal shape"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that batching saves time."""
    yield from of_calls(
        facts, "batches", CODE, "single rows are called one after another", _FIX, lambda calls: calls.count
    )
