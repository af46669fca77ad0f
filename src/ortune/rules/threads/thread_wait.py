"""A large part of the run is spent waiting for threads.

What it is: the thread that runs a node distributes work to the pool, or waits until the other threads are done.
Why it costs: nothing is computed meanwhile. The parts may be uneven, threads may start late because they slept or had
    no CPU, or the work is too small to share.
Evidence: the thread statistics of each node in the profile, and how many parts each thread of the pool processed.
    Under CPU contention, only the fastest runs are used.
Fix and its safety: advice: fewer threads, spinning on or off, or another block size (``dynamic_block_base``);
    ``ortune tune`` measures which of them helps.
Example: ``ortune tune model.onnx``
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

CODE = "THR002"

_WORTH_SAYING = 0.1
_UNEVEN = 2.0


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the profiled run waits for threads for a large part of its time."""
    share = facts.share("thread-wait")
    if min(share, _undisturbed(facts)) <= _WORTH_SAYING:
        return
    waiting = [n for n in sorted(facts.nodes(), key=lambda n: -n.wait_ns)[:NAMED] if n.wait_ns > 0]
    names = ", ".join(called(node) for node in waiting)
    yield Finding(
        code=CODE,
        what=f"{percent(share)} of the run is spent waiting for threads, mostly in {names}{_imbalance(facts)}",
        where=place(waiting),
        share_ratio=share,
        fix="measure fewer threads, spinning and other block sizes: ortune tune model.onnx",
    )


def _undisturbed(facts: Facts) -> float:
    """Return the fraction of waiting in the fastest executions if other programs used the CPUs; otherwise 1.0."""
    headroom = facts.profile.headroom if facts.profile else None
    return headroom.parts.get("thread-wait", 0.0) if headroom is not None and headroom.busy else 1.0


def _imbalance(facts: Facts) -> str:
    """Format the fraction of the waiting for late threads, and how unevenly the work was distributed."""
    nodes, pieces = facts.nodes(), facts.profile.pieces if facts.profile else ()
    waits = sum(node.wait_ns for node in nodes)
    if not waits:
        return ""
    late = sum(node.imbalance_ns for node in nodes) / waits
    text = f" ({percent(late)} waiting for late threads, {percent(1 - late)} distributing work"
    if pieces and pieces[0] > _UNEVEN * pieces[-1]:
        text += f"; parts per thread range from {pieces[-1]:,} to {pieces[0]:,}"
    return f"{text})"
