"""Each setting of the winner: its effect and its gain."""

from __future__ import annotations

from ortune.records import Envelope, SettingWorth
from ortune.show.chart import IntervalMark, Mark, factor_axis
from ortune.show.document import Block, Cell, Column, table
from ortune.show.numbers import times
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune.result import TuneResult

ORDER = 40
TITLE = "The winner's settings"
NOTE = (
    "The winner was run again without each setting. Right of 1x: omitting it costs time. Exploratory: the whole "
    "was confirmed, not its parts."
)
LEVELS = {
    "effect": "verified: its effect was seen",
    "echo": "accepted: the library supports it",
    "none": "not verified",
}


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return a table with one row per tested setting, kept or dropped; no rows if the winner has no settings."""
    result = envelope.result
    ends = [v for s in result.settings for v in (s.without_ratio, s.without_low, s.without_high) if v]
    columns = [
        Column("setting", "name"),
        Column("time without it / with it", "chart", axis=factor_axis(ends, times)),
        Column("worth", "text"),
    ]
    ordered = sorted(result.settings, key=lambda s: not s.kept)
    return [table(columns, [_row(item) for item in ordered])]


def _row(item: SettingWorth) -> list[Cell]:
    marks: tuple[Mark, ...] = ()
    ratio, has_interval = item.without_ratio, item.without_low is not None
    if ratio is not None:
        low, high = (item.without_low, item.without_high) if has_interval else (ratio, ratio)
        marks = (IntervalMark(middle=ratio, low=low, high=high, hue="winner" if item.kept else "other"),)
    name, worth = tune_details.setting(item), tune_details.worth(item)
    about = "; ".join(part for part in (item.summary, LEVELS[item.read_back]) if part)
    return [
        Cell(name, about),
        Cell(f"{name}: {worth}", marks=marks),
        Cell(f"{'kept' if item.kept else 'left out'}, {worth}", item.why),
    ]
