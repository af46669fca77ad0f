"""Checks whether a winner of lower precision makes the outputs of a row depend on other rows of the batch."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ortune.engines.racing.tuning import Tuning
from ortune.graph.model.open import open_model
from ortune.graph.rows import mixed_rows
from ortune.measuring import row_check
from ortune.records import RowCheck
from ortune.rules import rule_of
from ortune.rules.measurement import rows_depend_on_neighbours
from ortune.rules.quantization import range_over_the_batch


def check_winner_rows(run: Tuning) -> None:
    """Check whether a row of a batch changes other rows' outputs under the winner; add an alert if a batch is fed.

    This is needed only if the winner, unlike the base, computes quantization ranges at run time, since the rows of a
    batch then share a range.
    """
    winner, baseline = run.search.winner, run.baseline
    path = run.models.made(winner.plan) if winner is not None and run.search.confirmation else None
    if winner is None or path is None or mixed_rows(run.side.model.ir).ranges:
        return
    model = open_model(path)
    if not mixed_rows(model.ir).ranges:
        return
    left_ns = run.whole_budget.running.left_ns
    found = run.replay.once(
        "rows-of-winner",
        RowCheck | None,
        lambda: row_check.check_rows(
            baseline, baseline.arm("winner", plan=winner.plan, model=path), model.ir, lambda _: True, left_ns
        ),
    )
    run.record_other_work()
    facts = replace(baseline.facts(), model=model, plan=winner.plan, row_check=found)
    place = baseline.alerts if row_check.has_batch(model.ir, baseline.work) else baseline.findings
    # The graph decides if nothing could be measured.
    measured = rule_of(rows_depend_on_neighbours).findings(facts)
    for finding in measured or rule_of(range_over_the_batch).findings(facts):
        place.append(msgspec.structs.replace(finding, what=f"{winner.plan.describe()}: {finding.what}"))
