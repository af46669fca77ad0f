"""Input shapes change from call to call, and planning memory for each costs time.

What it is: sessions that are called with many shapes while the memory pattern is enabled, which is the default.
Why it costs: for each new combination of shapes ONNX Runtime records how memory is used, and keeps that for later
    calls. If shapes seldom come back, this work and its memory are lost.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: enable_mem_pattern=0, or round the shapes up to a few sizes.
Example: a speech model whose input length differs in each call
References: ONNX Runtime documentation, "Memory consumption".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_sessions
from ortune.rules.facts import Facts

CODE = "APP014"
TIER = "if-measured"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that disabling memory patterns saves time."""
    yield from of_sessions(facts, "patterns", CODE, "memory is planned for each new shape")
