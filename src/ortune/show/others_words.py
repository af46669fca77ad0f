"""The effect of other programs on a comparison, in words, for all verbs and formats."""

from __future__ import annotations

from collections.abc import Iterable

from ortune.printable import amount
from ortune.records import Comparison, OtherPrograms, QuietRounds
from ortune.show.document import Line
from ortune.show.numbers import change, interval_name, span

WAIT = ("--wait-quiet", "10m")
"""Options with which a command waits for a quiet machine."""
BY_NATURE = "where fewer threads win by nature"
"""Why a gain of threads, spinning or affinity on a busy machine is in doubt."""
LEAST_SHOWN = 0.05
"""Number of used CPUs below which the rounded number would be 0.0."""


def words(others: OtherPrograms, level: float) -> str:
    """Return a sentence on how the CPU use of other programs limits a comparison's verdict.

    Args:
        others: Other programs that used CPUs during the comparison.
        level: Level of the comparison's interval.
    """
    used = _used(others)
    nature = f", {BY_NATURE}" if others.favours else ""
    if others.hides:
        wait = f"wait for a quiet machine ({' '.join(WAIT)})"
        return f"measured while {used}{nature}; more time alone may not settle it, so {wait}"
    if others.explains:
        return _explained(others)
    if others.cpu_time is not None:
        c = others.cpu_time
        which = f"{change(c.ratio)}, {interval_name(level)} {span(c.ratio_low, c.ratio_high)}"
        return (
            f"{used}; waiting does not explain the difference, since CPU time per run changed too ({which})"
        )
    if others.quiet is not None:
        return f"{used}; the difference holds in {_rounds(others.quiet, level)}"
    return f"{used}; the difference is larger than all waiting for them"


def without_comparison(others: OtherPrograms) -> str:
    """Return a sentence on what the CPU use of other programs means for a search that compared nothing."""
    if others.explains:
        return _explained(others)
    return (
        f"measured while {_used(others)}, so times are too long; wait for a quiet machine ({' '.join(WAIT)})"
    )


def _explained(others: OtherPrograms) -> str:
    doubt = BY_NATURE if others.favours else "and waiting for them may explain the difference"
    return f"measured while {_used(others)}, {doubt}; confirm on a quiet machine ({' '.join(WAIT)})"


def _used(others: OtherPrograms) -> str:
    # The figure is a median over trials: it is 0.0 if other programs ran during a few of them.
    if others.used_cpus < LEAST_SHOWN:
        return "other programs used CPUs at times"
    return f"other programs used {others.used_cpus:.1f} of {amount(others.cpus, 'CPU')}"


def _rounds(quiet: QuietRounds, level: float) -> str:
    """Return a phrase on the rounds in which no side waited for a CPU: their number and, if known, their change."""
    which = f"the {quiet.n_rounds} of {quiet.of_rounds} rounds in which no side waited for a CPU"
    if quiet.ratio is None or quiet.ratio_low is None:
        return which
    return (
        f"{which} ({change(quiet.ratio)}, {interval_name(level)} {span(quiet.ratio_low, quiet.ratio_high)})"
    )


def doubts(comparison: Comparison | None) -> str:
    """Return the remark that other programs may explain a comparison's difference; "" if they cannot."""
    others = comparison.others if comparison is not None else None
    return others.words if others is not None and others.explains else ""


def hidden(comparison: Comparison | None) -> bool:
    """Return whether a comparison is inconclusive because of other programs, so that more time is unlikely to help."""
    return comparison is not None and comparison.others is not None and comparison.others.hides


def only_under_load(comparison: Comparison | None) -> bool:
    """Return whether a difference was only found on a busy machine, so that it is no reason for a new default."""
    return comparison is not None and comparison.others is not None and comparison.others.only_under_load


def of_threads(comparison: Comparison | None) -> str:
    """Return a remark for the headline if threads, spinning or affinity were compared on a busy machine; else ""."""
    others = comparison.others if comparison is not None else None
    doubtful = others is not None and others.favours and (others.explains or others.hides)
    return f"measured next to other programs, {BY_NATURE}" if doubtful else ""


def lines(comparisons: Iterable[tuple[str, Comparison | None]]) -> list[Line]:
    """Return a line for each comparison that has a remark on other programs.

    Args:
        comparisons: Pairs of a name and a comparison; the name may be "" if there is only one comparison.
    """
    said: list[Line] = []
    for name, comparison in comparisons:
        if comparison is not None and comparison.others is not None and comparison.others.words:
            others = comparison.others
            text = f"{name}: {others.words}" if name else others.words
            said.append(Line(text, "look" if others.explains or others.hides else "faint"))
    return said


def wait_options(comparison: Comparison | None) -> list[str]:
    """Return the options with which a rerun waits for a quiet machine; [] if other programs had no influence."""
    return list(WAIT) if doubts(comparison) or hidden(comparison) else []
