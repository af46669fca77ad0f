"""Headlines of verbs that compare: the verdict's word, the result with its interval, then the settings and costs.

Terminals, pages, Markdown, GitHub jobs and ``summary()`` all show the headline made here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Comparison, VerdictName
from ortune.show import sides
from ortune.show.numbers import change, factor, interval_name, span

WORDS: dict[VerdictName, str] = {
    "faster": "faster",
    "slower": "slower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "nothing-tested": "nothing tested",
    "wrong-output": "outputs differ",
    "invalid": "invalid",
    "functional-only": "functional only",
}
"""Maps each verdict of the JSON document to its words."""
_OF_RESOURCES: dict[str, dict[VerdictName, str]] = {
    "memory": {"faster": "less memory", "slower": "more memory"},
    "cpu": {"faster": "less CPU time", "slower": "more CPU time"},
}
"""Maps statistics that are not times, which cannot be "faster", to the words for their verdicts."""
WITHIN = 0.01
"""Default half-width of the range that counts as "equivalent", as a fraction of the base."""
PROVEN = ("faster", "slower")


def headline(
    verdict: VerdictName, figure: str, *takes: str, statistic: str = "", within: float = WITHIN
) -> str:
    """Return the headline: "faster: 1.11x in p50 (95 % interval 1.09-1.13x, 16 blocks); with intra_op_num_threads=2".

    Args:
        verdict: The verdict, whose word comes first.
        figure: The result, from ``measured`` if an interval is known.
        takes: Settings that the result needs, and its costs; "" is left out.
        statistic: The compared statistic; "" if none.
        within: Half-width of the range that counts as "equivalent", as a fraction of the base.
    """
    text = f"{word(verdict, statistic, within)}: {figure}"
    rest = ", ".join(part for part in takes if part)
    return f"{text}; {rest}" if rest else text


def outputs_first(of_outputs: Sequence[str], time: str) -> str:
    """Return the headline of a comparison whose outputs matter more than its times."""
    return f"{', '.join(of_outputs)}; {time}"


def word(verdict: VerdictName, statistic: str = "", within: float = WITHIN) -> str:
    """Return the verdict in words: "faster", "equivalent (within 1 %)", "less memory"."""
    if verdict == "equivalent":
        return f"{WORDS[verdict]} (within {100 * within:.3g} %)"
    return _OF_RESOURCES.get(sides.kind(statistic), {}).get(verdict, WORDS[verdict])


def measured(comparison: Comparison, blocks: str) -> str:
    """Return a result with its interval and number of blocks: "1.11x in p50 (95 % interval 1.09-1.13x, 24 blocks)".

    Args:
        comparison: Shown as a factor if it proves a difference, else as a signed change, or as neither for one block.
        blocks: Number of blocks, in words.
    """
    name = interval_name(comparison.level)
    of = sides.statistic_name(comparison.statistic)
    if sides.single(comparison):
        return f"{blocks} cannot confirm a change in {of}"
    if comparison.verdict in PROVEN:
        ratio = comparison.ratio
        return f"{factor(max(ratio, 1 / ratio))}x in {of} ({name} {bounds(comparison)}, {blocks})"
    ratio, low, high = sides.as_shown(comparison)
    return f"{change(ratio)} in {of} ({name} {span(low, high)}, {blocks})"


def bounds(comparison: Comparison) -> str:
    """Return the interval of a proven difference as factors of 1 or more: "1.24-1.40x", "1.24x or more"."""
    low, high = comparison.ratio_low or None, comparison.ratio_high
    if comparison.verdict == "faster":
        low, high = 1 / high if high else 1.0, 1 / low if low else None
    return f"{factor(low or 1.0)}-{factor(high)}x" if high else f"{factor(low or 1.0)}x or more"


def amount(number: int, noun: str) -> str:
    """Format a number with its noun, in the singular or plural: "1 block", "24 blocks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
