"""Latency varies, and slow runs wait for late threads.

What it is: some runs of one process take at least 1.5 times as long as others. Part of each run is spent at the end
    of operators, where finished threads wait for a late one.
Why it costs: an operator's work is split into equal parts, so one thread that is delayed by another program or a
    slower core delays all of them. This affects the slow runs more than the median.
Evidence: the 90th over the 10th percentile of the profiled runs, and the time each node waited for its last thread.
Fix and its safety: exact: ``dynamic_block_base=4``, which uses smaller parts towards the end. More parts cost more
    synchronisation, so only commands that also measure the fix report this finding. Measure it with
    ``--objective p95``.
Example: ``ortune diagnose model.onnx --objective p95``
References: ONNX Runtime documentation, "Thread management" (dynamic block sizing); microsoft/onnxruntime#9667.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import DYNAMIC_BLOCK_BASE
from ortune.records import Finding, Plan
from ortune.rules._words import NAMED, percent, place
from ortune.rules.facts import Facts

CODE = "THR006"
TIER = "if-measured"

_UNEQUAL = 1.5
_WORTH_SAYING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if runs vary and wait for late threads, in a profiled run on ONNX Runtime's own threads."""
    run = facts.profile
    spread = run.variance.spread_ratio if run and run.variance else None
    if run is None or spread is None or spread < _UNEQUAL or not run.wall_ns:
        return
    if run.headroom is not None and run.headroom.busy:
        return  # other programs delay threads, and smaller blocks do not help
    if facts.plan.is_web or facts.plan.settings.get(DYNAMIC_BLOCK_BASE.name):
        return
    late = sorted(
        (node for node in facts.nodes() if node.imbalance_ns > 0), key=lambda node: -node.imbalance_ns
    )
    share = sum(node.imbalance_ns for node in late) / run.wall_ns
    if share > _WORTH_SAYING:
        yield Finding(
            code=CODE,
            what=f"slow runs take {spread:.1f}x as long as fast ones (p90 over p10), and {percent(share)} of the "
            "run is spent waiting for late threads",
            where=place(late[:NAMED]),
            share_ratio=share,
            plan=Plan(settings={DYNAMIC_BLOCK_BASE.name: 4}),
            safety="exact",
        )
