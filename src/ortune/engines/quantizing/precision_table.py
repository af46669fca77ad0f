"""Creates the table of low-precision plans by error class, together with the best plan in full precision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ortune.engines.racing.plan_runs import lowers_precision
from ortune.records import Candidate, OutputDifference, Plan, PrecisionRow

CLASSES = (0.001, 0.01, 0.05)
"""Upper limits of the error classes, as relative L2 differences."""


def error_class(difference: OutputDifference) -> float | None:
    """Return the upper limit of the strictest class that contains a difference; None if no class does."""
    if not difference.comparable:
        return None
    return next((limit for limit in CLASSES if difference.relative_l2 <= limit), None)


def table(
    rows: Sequence[PrecisionRow], raced: Sequence[Candidate], size_bytes: int
) -> tuple[PrecisionRow, ...]:
    """Return the rows sorted by error class, with speeds from the race, and with the best plan in full precision."""
    raced_by_plan = {c.plan.id: c for c in raced if c.ratio is not None}
    quantized = {row.plan.id for row in rows}
    by_setting = _not_quantized([c for name, c in raced_by_plan.items() if name not in quantized])
    if not rows and not by_setting:
        return ()
    plain = [
        c
        for c in raced_by_plan.values()
        if c.status not in ("failed", "wrong-output") and not lowers_precision(c.plan)
    ]
    best = min(plain, key=lambda c: c.ratio or 1.0, default=None)
    exact = PrecisionRow(plan=Plan(), within_ratio=0.0, ratio=1.0, size_bytes=size_bytes)
    if best is not None and (best.ratio or 1.0) < 1.0:
        exact = _raced(msgspec.structs.replace(exact, plan=best.plan, outputs=best.outputs), best)
    table_rows = [
        exact,
        *by_setting,
        *(_raced(r, raced_by_plan[r.plan.id]) if r.plan.id in raced_by_plan else r for r in rows),
    ]
    table_rows.sort(key=lambda r: (r.within_ratio is None, r.within_ratio or 0.0, r.ratio or math.inf))
    marked, fastest = [], math.inf
    for row in table_rows:
        # Rows are sorted by error, so a row is on the Pareto front if it is faster than all before it.
        better = row.within_ratio is not None and row.ratio is not None and row.ratio < fastest
        fastest = row.ratio if better and row.ratio is not None else fastest
        marked.append(msgspec.structs.replace(row, pareto=better))
    return tuple(marked)


def _not_quantized(raced: Iterable[Candidate]) -> list[PrecisionRow]:
    """Return the rows of raced plans that lower the precision by a setting or another rewrite than quantization."""
    rows = []
    for c in raced:
        if lowers_precision(c.plan) and c.outputs is not None and c.outputs.ok:
            row = PrecisionRow(plan=c.plan, within_ratio=error_class(c.outputs), outputs=c.outputs)
            rows.append(_raced(row, c))
    return rows


def _raced(row: PrecisionRow, candidate: Candidate) -> PrecisionRow:
    return msgspec.structs.replace(
        row, ratio=candidate.ratio, ratio_low=candidate.ratio_low, ratio_high=candidate.ratio_high
    )
