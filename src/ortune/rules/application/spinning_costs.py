"""Spinning threads cost CPU time or time for the recorded calls.

What it is: sessions with a thread pool that spins, which is the default.
Why it costs: a thread without work runs a loop for a while before it sleeps, and takes a CPU from others meanwhile.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: allow_spinning=0. A call then starts its threads a few microseconds later.
Example: a model that is called every 20 ms
References: ONNX Runtime documentation, "Thread management: thread spinning".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_sessions
from ortune.rules.facts import Facts

CODE = "APP011"
TIER = "if-measured"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that disabling spinning saves time."""
    yield from of_sessions(facts, "spinning", CODE, "the threads of sessions spin")
