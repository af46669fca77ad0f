"""The memory arena is disabled, and allocating memory costs time.

What it is: sessions that the program creates with enable_cpu_mem_arena=0.
Why it costs: each tensor is then allocated and freed by the system. With a fast allocator this is nothing.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: enable the arena. It keeps the largest memory that a call needed.
Example: a library that disables the arena for all of its models
References: microsoft/onnxruntime#22271.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_sessions
from ortune.rules.facts import Facts

CODE = "APP016"
TIER = "if-measured"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that the arena saves time."""
    yield from of_sessions(facts, "arena", CODE, "the memory arena is disabled")
