"""Memory stays after sessions are deleted.

What it is: each session that is created and deleted leaves some memory behind.
Why it costs: an application that creates a session for each request or user grows until it is killed.
Evidence: a soak with ``--recreate`` in which memory rises, and does not if sessions are kept.
Fix and its safety: advice: create the session once and share it, or restart the process after a number of sessions.
Example: ``ortune soak model.onnx --recreate 200``
References: microsoft/onnxruntime#22271.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM009"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if keeping sessions flattens the memory rise of a soak."""
    yield from first_cause(
        CODE,
        "memory stays after sessions are deleted",
        "create the session once and share it between requests",
        flattening_experiments(facts, "kept-sessions"),
    )
