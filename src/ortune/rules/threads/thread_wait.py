"""A large part of the run is waiting for threads.

What it is: the thread that runs a node waits until the pool's others are done with their parts of it, or hands out
    parts.
Why it costs: nothing is computed meanwhile. Parts may be uneven, threads may begin late because they slept or had no
    CPU, or the work is too small to be worth sharing. Where other programs had the CPUs, the run at its fastest counts.
Evidence: the profile's own figures of each node's threads; how many parts each thread of the pool took.
Fix and its safety: advice: fewer threads, spinning, or another block size; which of them helps is what ``tune`` races.
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
    """In a profiled run."""
    share = facts.share("thread-wait")
    if min(share, _undisturbed(facts)) <= _WORTH_SAYING:
        return
    waiting = [n for n in sorted(facts.nodes(), key=lambda n: -n.wait_ns)[:NAMED] if n.wait_ns > 0]
    names = ", ".join(called(node) for node in waiting)
    yield Finding(
        code=CODE,
        what=f"{percent(share)} of the run is waiting for threads, most of it in {names}{_imbalance(facts)}",
        where=place(waiting),
        share_ratio=share,
        fix="fewer threads, spinning or another block size may help",
    )


def _undisturbed(facts: Facts) -> float:
    """The share of a run at its fastest, where other programs had the CPUs: no setting ends waiting for these."""
    found = facts.profile.headroom if facts.profile else None
    return found.parts.get("thread-wait", 0.0) if found is not None and found.busy else 1.0


def _imbalance(facts: Facts) -> str:
    """How much of the waiting is because others were not done, and whether the work went to all of them alike."""
    nodes, pieces = facts.nodes(), facts.profile.pieces if facts.profile else ()
    waits = sum(node.wait_ns for node in nodes)
    if not waits:
        return ""
    late = sum(node.imbalance_ns for node in nodes) / waits
    text = f" ({percent(late)} of it until others were done with their parts, {percent(1 - late)} sharing out work"
    if pieces and pieces[0] > _UNEVEN * pieces[-1]:
        text += f"; of the pool's threads one took {pieces[0]:,} parts in the whole profile, another {pieces[-1]:,}"
    return f"{text})"
