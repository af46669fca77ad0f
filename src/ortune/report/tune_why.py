"""Why a winner won, and without one what settings cannot reach and what can: in sentences, from the profiles."""

from __future__ import annotations

import shlex

from ortune.records import ProfileDifference, TuneResult
from ortune.report import difference_words as differences
from ortune.report import tune_words as words
from ortune.report.answer_commands import words_of
from ortune.report.numbers import duration, shorten
from ortune.report.profile_tables import category_words

LEAST_PART = 0.1
"""Of the whole difference, from which on a category or a node is named."""
NAME = 60
FED = {
    "--shape",
    "--dim",
    "--inputs",
    "--workload",
    "--custom-ops",
    "--seed",
    "--set",
    "--plan",
    "--runtime",
    "--python",
}
"""Options of a tuning that say what is run and fed, which a profile takes too."""


def won(difference: ProfileDifference) -> str:
    """Where the gain lies, in one sentence: the categories that fell, and the node that fell most."""
    more = difference.b_wall_ns - difference.a_wall_ns
    both = f"{duration(difference.a_wall_ns)} -> {duration(difference.b_wall_ns)}"
    if differences.no_difference(difference) or more >= 0:
        return f"Under the profiler the two differ by no more than noise ({both}), so it does not tell why."
    least = LEAST_PART * abs(more)
    fell = [row for row in difference.categories if row.difference_ns <= -least]
    parts = [f"{duration(-row.difference_ns)} of it {category_words(row.name)}" for row in fell[:2]]
    node = next((row for row in difference.nodes if row.difference_ns <= -least), None)
    if node is not None:
        kind = f" ({node.op_type})" if differences.beneath(node) else ""
        gone = ", which is gone" if node.b_ns is None else ""
        parts.append(
            f"most of all in {shorten(node.name, NAME)}{kind}: {duration(-node.difference_ns)}{gone}"
        )
    rose = next((row for row in difference.categories if row.difference_ns >= least), None)
    if rose is not None:
        parts.append(f"{category_words(rose.name)} takes {duration(rose.difference_ns)} more")
    causes = "; ".join(parts) or "many small parts of it"
    return f"Why: under the profiler a run takes {duration(-more)} less ({both}): {causes}."


def left(result: TuneResult) -> list[tuple[str, str]]:
    """Without a winner: how near the nearest came, what settings cannot reach, and what was not tried."""
    rows = []
    measured = [c for c in words.tried(result.candidates) if c.ratio and c.fate == "retired"]
    nearest = min(measured, key=lambda c: c.ratio or 1.0, default=None)
    if result.refused is not None:
        rows.append(("nearest", result.refused.why))
    elif nearest is not None and nearest.ratio:
        interval = f", {words.factors(nearest.ratio_low, nearest.ratio_high)}" if nearest.ratio_low else ""
        text = f"{nearest.plan.describe()}: {words.times(1 / nearest.ratio)} of the default's speed{interval}"
        rows.append(("nearest", f"{text}, race data"))
    if result.headroom is not None:
        rows.append(("what is left to win", result.headroom.sentence))
    untested = [c for c in result.candidates if c.fate == "not-tried"]
    if untested:
        names = ", ".join(c.plan.describe() for c in untested[: words.NAMED])
        more = f" and {len(untested) - words.NAMED} more" if len(untested) > words.NAMED else ""
        rows.append(("not tested", f"{names}{more}"))
    return rows


def next_commands(result: TuneResult) -> list[str]:
    """Without a winner: the commands that reach what this tuning did not."""
    again = words_of(result.reproduce)
    if again[:2] != ["ortune", "tune"]:
        return []
    commands = []
    if result.budget.enough_s:
        budget = f"{result.budget.enough_s:.0f}s"
        commands.append([*_without(again, {"--budget"}), "--budget", budget])
    if not result.allowed and not words.nothing_tested(result):
        commands.append([*again, "--allow", "numerics"])
    model, options = again[2], again[3:]
    kept = _only(options, FED)
    commands.append(["ortune", "profile", model, *kept, "--report", "profile.html"])
    return [shlex.join(words) for words in commands]


def _pairs(options: list[str]) -> list[tuple[str, ...]]:
    """Each option with its value, where one follows."""
    pairs: list[tuple[str, ...]] = []
    for word in options:
        if word.startswith("--") or not pairs:
            pairs.append((word,))
        else:
            pairs[-1] = (*pairs[-1], word)
    return pairs


def _only(options: list[str], names: set[str]) -> list[str]:
    return [word for pair in _pairs(options) if pair[0] in names for word in pair]


def _without(options: list[str], names: set[str]) -> list[str]:
    return [word for pair in _pairs(options) if pair[0] not in names for word in pair]
