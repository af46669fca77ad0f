"""Runs take unequal time, and in them threads wait for those that are late.

What it is: some runs of one process take half as long again as others or more, and part of each run passes at the end
    of operators, with threads that are done waiting for one that is not.
Why it costs: an operator's work is cut into equal parts, so that one thread that is held up, by another program or a
    slower core, holds up all. It is the slow runs that suffer, and not so much the median.
Evidence: the 90th percentile of the profiled runs over the 10th; each node's wait until other threads were done.
Fix and its safety: exact: ``dynamic_block_base=4``, whose parts shrink as the work runs out. More parts cost more
    hand-overs, so that it is said only where it is measured, best with ``--objective p95``.
Example: ``ortune diagnose model.onnx --objective p95``
References: ONNX Runtime documentation, "Thread management" (dynamic block sizing); microsoft/onnxruntime#9667.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.cpu.dynamic_block_base import KNOB
from ortune.records import Finding, Plan
from ortune.rules._words import NAMED, percent, place
from ortune.rules.facts import Facts

CODE = "THR006"
TIER = "if-measured"

_UNEQUAL = 1.5
_WORTH_SAYING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run on ONNX Runtime's own threads."""
    run = facts.profile
    spread = run.variance.spread_ratio if run and run.variance else None
    if run is None or spread is None or spread < _UNEQUAL or not run.wall_ns:
        return
    if run.headroom is not None and run.headroom.busy:
        return  # other programs hold threads up, and smaller parts do not end them
    if facts.plan.is_web or facts.plan.settings.get(KNOB.name):
        return
    late = sorted(
        (node for node in facts.nodes() if node.imbalance_ns > 0), key=lambda node: -node.imbalance_ns
    )
    share = sum(node.imbalance_ns for node in late) / run.wall_ns
    if share > _WORTH_SAYING:
        yield Finding(
            code=CODE,
            what=f"slow runs take {spread:.1f} times as long as fast ones (p90 over p10), and {percent(share)} of the "
            "run is waiting for a thread that is late",
            where=place(late[:NAMED]),
            share_ratio=share,
            plan=Plan(settings={KNOB.name: 4}),
            safety="exact",
        )
