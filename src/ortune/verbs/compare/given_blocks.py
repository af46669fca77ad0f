"""The judgement of blocks that ortune's own workers did not run: of a phone, or whole runs of a program."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Block, Comparison, Control
from ortune.search import duel
from ortune.search.blocks import IDENTICAL, log_ratios
from ortune.stats import calibration


def judged(
    arms: tuple[str, ...], blocks: Sequence[Block], statistic: str
) -> tuple[dict[str, Comparison], Control]:
    """Return the comparison of each arm with the base, and the A/A check of the base's identical copy."""
    control = calibration.identical_control(log_ratios(blocks, IDENTICAL, statistic))
    state = duel.Duel(
        rules=duel.Rules(max_blocks=len(blocks)),
        design=duel.Design(sequential=False, n_blocks=len(blocks)),
        arms=arms,
        statistic=statistic,
        blocks=list(blocks),
        controls=[control],
        ended="blocks",
    )
    return state.conclude_all(), control
