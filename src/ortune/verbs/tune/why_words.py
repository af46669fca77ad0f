"""Sentences from the profiles: the reasons for a winner's gain, or the time that settings cannot reduce."""

from __future__ import annotations

from ortune.printable import amount
from ortune.records import ProfileDifference
from ortune.show import difference_tables, difference_words
from ortune.show.numbers import duration, factors, shorten, times
from ortune.show.profile_tables import category_words
from ortune.verbs._shared import tune_facts
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune.result import TuneResult

LEAST_PART = 0.1
"""Minimum fraction of the whole difference from which a category or a node is named."""
NAME = 60


def gain_location(difference: ProfileDifference) -> str:
    """Return a sentence that locates the gain: the categories and the node whose time decreased most."""
    more = difference.b_wall_ns - difference.a_wall_ns
    both = f"{duration(difference.a_wall_ns)} -> {duration(difference.b_wall_ns)}"
    if difference_tables.is_hidden(difference):
        return f"The reason is unknown: {difference_words.headline(difference)}."
    if difference_tables.no_difference(difference) or more >= 0:
        return _in_part(difference, both)
    least = LEAST_PART * abs(more)
    fell = [row for row in difference.categories if row.difference_ns <= -least]
    parts = [f"{duration(-row.difference_ns)} of it {category_words(row.name)}" for row in fell[:2]]
    node = next((row for row in difference.nodes if row.difference_ns <= -least), None)
    if node is not None:
        kind = f" ({node.op_type})" if difference_tables.beneath(node) else ""
        gone = ", which was removed" if node.b_ns is None else ""
        parts.append(f"mainly in {shorten(node.name, NAME)}{kind}: {duration(-node.difference_ns)}{gone}")
    rose = next((row for row in difference.categories if row.difference_ns >= least), None)
    if rose is not None:
        parts.append(f"{category_words(rose.name)} takes {duration(rose.difference_ns)} more")
    causes = "; ".join(parts) or "many small parts of it"
    return f"Why: under the profiler a run takes {duration(-more)} less ({both}): {causes}."


def _in_part(difference: ProfileDifference, both: str) -> str:
    """Return a sentence on the nodes that take less time, for profiles that do not confirm a gain of whole runs."""
    whole = (
        f"differ by no more than noise ({both})"
        if difference_tables.no_difference(difference)
        else f"do not show the gain ({both})"
    )
    certain = difference_words.beyond_noise(difference)
    less = [row for row in certain if row.difference_ns < 0]
    if less:
        first, n = less[0], len(less)
        which = f"{n} nodes take less, mainly" if n > 1 else "one node takes less:"
        node = f"{shorten(first.name, NAME)} ({difference_words.row_change(first)})"
        return f"Why: whole runs under the profiler {whole}, but {which} {node}."
    if certain:
        nodes = amount(len(certain), "node")
        return f"The reason is unknown: whole runs under the profiler {whole}, and {nodes} that differ take no less."
    return f"The reason is unknown: profiles of both {whole}."


def left(result: TuneResult) -> list[tuple[str, str]]:
    """Return (label, text) rows for a tuning without a winner: nearest plan, remaining potential."""
    rows = []
    measured = [
        c for c in tune_facts.plans_that_ran(result.candidates) if c.ratio and c.status == "eliminated"
    ]
    nearest = min(measured, key=lambda c: c.ratio or 1.0, default=None)
    if result.refused is not None:
        rows.append(("nearest", result.refused.why))
    elif nearest is not None and nearest.ratio:
        interval = f", {factors(nearest.ratio_low, nearest.ratio_high)}" if nearest.ratio_low else ""
        text = f"{nearest.plan.describe()}: {times(1 / nearest.ratio)} of the default's speed{interval}"
        rows.append(("nearest", f"{text}, exploratory"))
    if result.headroom is not None:
        rows.append(("remaining potential", result.headroom.sentence))
    return rows


def untested(result: TuneResult) -> list[str]:
    """Return the first configurations that were not tested, and the number of the others."""
    return tune_details.plan_names([c for c in result.candidates if c.status == "not-tried"])
