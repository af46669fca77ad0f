"""Inputs are Python lists, and their conversion costs time.

What it is: calls whose inputs are lists of numbers instead of arrays.
Why it costs: ONNX Runtime converts a list one number at a time, in every run. For short lists this is nothing.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: keep the values in a numpy array of the type of the input.
Example: ``session.run(None, {"ids": tokenizer.encode(text)})`` with a list of thousands of numbers
References: ONNX Runtime Python API, ``InferenceSession.run``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_calls
from ortune.rules.facts import Facts

CODE = "APP012"
TIER = "if-measured"
_FIX = "pass a numpy array of the type of the input"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that arrays instead of lists save time."""
    yield from of_calls(facts, "lists", CODE, "inputs are Python lists", _FIX, lambda calls: calls.with_lists)
