"""Each setting of the winner: what it does and what it is worth."""

from __future__ import annotations

from ortune.records import Envelope, SettingWorth, TuneResult
from ortune.report import tune_words as words
from ortune.report.html import svg

ORDER = 40
TITLE = "The winner's settings"
NOTE = (
    "The winner was run again without each setting: right of 1x, leaving it out costs time. "
    "Race data, so exploratory; the whole was confirmed, not its parts."
)
LEVELS = {
    "effect": "verified: its effect was seen",
    "echo": "accepted: the library knows it",
    "none": "not verified",
}


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A row a setting, kept or left out; None where the winner has none."""
    result = envelope.result
    if not result.settings:
        return None
    bounds = [
        v
        for s in result.settings
        for v in (s.without_ratio, s.without_low, s.without_high)
        if v is not None and v > 0
    ]
    scale = svg.factor_scale(bounds)
    ordered = sorted(result.settings, key=lambda s: not s.kept)
    return {"rows": [_row(s, scale) for s in ordered], "axis": svg.axis(scale, words.times)}


def _row(item: SettingWorth, scale: svg.Scale) -> dict[str, object]:
    marks = svg.gridlines(scale, strong=1.0)
    if item.without_ratio is not None:
        marks += svg.interval(
            scale,
            item.without_ratio,
            item.without_ratio if item.without_low is None else item.without_low,
            item.without_ratio if item.without_low is None else item.without_high,
            sure=False,
            kind="winner" if item.kept else "other",
        )
    return {
        "name": words.setting(item),
        "summary": item.summary,
        "why": item.why,
        "worth": words.worth(item),
        "kept": item.kept,
        "level": LEVELS[item.read_back],
        "plot": svg.picture(f"{words.setting(item)}: {words.worth(item)}", marks),
    }
