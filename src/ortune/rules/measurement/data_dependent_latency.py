"""Latency or output shapes depend on the input values.

What it is: one process ran the model on several kinds of synthetic inputs, and times or output shapes differed.
Why it costs: no cost; but times with synthetic inputs may not match those of real inputs, and another configuration
    may win.
Evidence: the times for each kind of input, which differ at the median and at the 10th percentile; or the shapes.
Fix and its safety: advice: pass real inputs.
Example: ``--inputs samples/``
References: ``docs/inputs.md``, "How values are chosen".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ortune.graph import outputs
from ortune.records import Finding
from ortune.rules._words import duration
from ortune.rules.facts import Facts

CODE = "MSR010"

# Minimum ratio of medians; the middle halves must not overlap either.
_SPREAD = 1.25
_FIX = "pass real inputs with --inputs PATH"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if latency or output shapes differ between kinds of synthetic inputs."""
    if len(facts.kinds) < 2:
        return
    suspects = outputs.value_dependent_ops(facts.model.ir)[:8] if facts.model else ()
    where = tuple(f"{op} {name}".strip() for name, op in suspects)
    quantiles = [
        # The three quartiles, then the fastest tenth: q[0] to q[2], and q[3].
        np.quantile(np.asarray(c.latency_ns, dtype=float), [0.25, 0.5, 0.75, 0.1])
        for c in facts.kinds
    ]
    low, high = min(quantiles, key=lambda q: float(q[1])), max(quantiles, key=lambda q: float(q[1]))
    # The fastest tenth must differ too, since interference in some runs does not change it.
    if high[1] > _SPREAD * low[1] and high[3] > _SPREAD * low[3] and high[0] > low[2]:
        span = f"{duration(low[1])} to {duration(high[1])} for {len(facts.kinds)} kinds of synthetic inputs"
        what = f"latency depends on the input values: {span}"
        yield Finding(code=CODE, what=what, where=where, evidence=span, fix=_FIX)
    elif len({case.output_shapes for case in facts.kinds}) > 1:
        shapes = "; ".join(
            f"{c.case}: {' '.join('x'.join(map(str, s)) for s in c.output_shapes[:3])}" for c in facts.kinds
        )
        what = "output shapes depend on the input values, and latency may too"
        yield Finding(code=CODE, what=what, where=where, evidence=shapes[:300], fix=_FIX)
