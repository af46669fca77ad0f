"""Influence of other programs' CPU use on comparisons, for every verb that claims a difference."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortune.records import Block, Comparison, Host, Measured, OtherPrograms, Plan
from ortune.search.blocks import BASE
from ortune.search.waiting import Again, differ_in_threads, other_programs, with_other_programs
from ortune.show import others_words


def with_others(
    comparison: Comparison,
    blocks: Sequence[Block],
    statistic: str,
    host: Host,
    again: Again,
    plans: tuple[Plan, Plan],
    *,
    arm: str,
    base: str = BASE,
) -> Comparison:
    """Return a comparison with facts and a sentence on other programs that used CPUs meanwhile.

    Args:
        comparison: Comparison of a candidate with a baseline.
        blocks: Blocks of the comparison, with latencies.
        statistic: The compared statistic.
        host: The machine.
        again: Computes the same comparison from different blocks.
        plans: Plans of the candidate and of the baseline.
        arm: Name of the candidate in the blocks.
        base: Name of the baseline in the blocks.
    """
    favours = differ_in_threads(*plans)
    comparison = with_other_programs(
        comparison, blocks, statistic, host, again, arm=arm, base=base, favours=favours
    )
    return worded(comparison) or comparison


def worded(comparison: Comparison | None) -> Comparison | None:
    """Return a comparison with the sentence about other programs filled in, if it has facts about them."""
    if comparison is None or comparison.others is None:
        return comparison
    text = others_words.words(comparison.others, comparison.level)
    return msgspec.structs.replace(comparison, others=msgspec.structs.replace(comparison.others, words=text))


def without_comparison(
    trials: Sequence[Measured], host: Host, leader: Plan | None, base: Plan
) -> OtherPrograms | None:
    """Return facts and a sentence on other programs for a search that compared nothing; None on a quiet machine.

    Args:
        trials: Trials of all plans.
        host: The machine.
        leader: The plan that looks faster; None if none does.
        base: The plan that it would replace.
    """
    favours = leader is not None and differ_in_threads(leader, base)
    others = other_programs(trials, host, explains=leader is not None, favours=favours)
    if others is None:
        return None
    return msgspec.structs.replace(others, words=others_words.without_comparison(others))
