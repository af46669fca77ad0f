"""Another number of threads needs less CPU time or less time for the recorded calls.

What it is: sessions whose thread pool does not fit the application: too large for small models or for several
    processes, or too small.
Why it costs: threads that wait for work use CPU time, and threads without a CPU delay those that have one.
Evidence: blocks of a replay with the recorded settings and with the change, in random order. Without a confirmed gain
    it is not reported.
Fix and its safety: advice: set the number of threads that was measured; sums may be reassociated.
Example: a small model on the default pool of a machine with 64 CPUs
References: ONNX Runtime documentation, "Thread management"; microsoft/onnxruntime#22271.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._replayed import of_sessions
from ortune.rules.facts import Facts

CODE = "APP010"
TIER = "if-measured"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a replay confirmed that another number of threads saves time."""
    yield from of_sessions(facts, "pool", CODE, "the number of threads does not fit the calls")
