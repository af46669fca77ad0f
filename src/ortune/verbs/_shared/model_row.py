"""Parts of a model's row in a table of several models; each verb's ``row.py`` makes rows from its documents."""

from __future__ import annotations

from ortune.records import Comparison, Envelope, Figures, ModelRow, Record, RowFigure, RowUnit
from ortune.show import headline, sides

OUTPUTS_DIFFER = "outputs differ"
_WORDS: dict[str, str] = {str(verdict): word for verdict, word in headline.WORDS.items()}


def changed(comparison: Comparison | None) -> tuple[RowFigure, ...]:
    """Return the changes of the compared statistic, the load time and the memory; () without a comparison."""
    if comparison is None:
        return ()
    ratio, low, high = sides.as_shown(comparison)
    figures = [change(sides.statistic_name(comparison.statistic), ratio, low, high)]
    figures += [
        change("load", other.ratio, other.ratio_low, other.ratio_high)
        for other in comparison.beside
        if other.figure == "load"
    ]
    figures += [
        change("memory", guard.ratio, guard.ratio_low, guard.ratio_high)
        for guard in comparison.guards
        if guard.figure == "memory" and guard.ratio is not None
    ]
    return tuple(figures)


def change(name: str, ratio: float, low: float | None = None, high: float | None = None) -> RowFigure:
    """Return the change of a metric, a ratio with its interval if known."""
    return RowFigure(name=f"{name} change", unit="ratio", value=ratio, low=low, high=high)


def time_of(comparison: Comparison | None) -> tuple[RowFigure, ...]:
    """Return a tuple with the new side's value of the compared statistic; () if it is unknown."""
    return () if comparison is None else _value(comparison.new_value, comparison.statistic)


def value_of(figures: Figures | None, statistic: str) -> tuple[RowFigure, ...]:
    """Return a tuple with the value of a statistic; () if it is unknown."""
    return () if figures is None else _value(sides.number(figures, statistic), statistic)


def _value(value: float | None, statistic: str) -> tuple[RowFigure, ...]:
    if not value:
        return ()
    name = sides.statistic_name(statistic)
    if sides.is_rate(statistic):
        return (RowFigure(name=name, unit="per-second", value=1e9 / value),)
    unit: RowUnit = "bytes" if sides.kind(statistic) == "memory" else "ns"
    return (RowFigure(name=name, unit=unit, value=value),)


def of_answer(
    envelope: Envelope[Record],
    sentence: str,
    *,
    answer: str = "",
    alarm: bool = False,
    figures: tuple[RowFigure, ...] = (),
    needs: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
) -> ModelRow:
    """Return the row of a model with a result; the caller sets the row's path, page and exit code.

    Args:
        envelope: The model's document.
        sentence: The result in one sentence.
        answer: The result in a few words; "" for the words of the verdict.
        alarm: Whether outputs are wrong, differ, or changed.
        figures: Values of metrics, the most important first.
        needs: Requirements of the result, such as an option or a package.
        remarks: Further remarks for the reader.
    """
    said = tuple(alert.what for alert in envelope.alerts)
    return ModelRow(
        path="",
        sha256=envelope.model.sha256 if envelope.model else "",
        status=envelope.status,
        verdict=envelope.verdict or "",
        answer=answer or _WORDS.get(envelope.verdict or "", envelope.verdict or "done"),
        headline=sentence,
        alarm=alarm or envelope.status == "default-wrong",
        figures=figures,
        needs=tuple(filter(None, needs)),
        remarks=(*said, *filter(None, remarks)),
        session=getattr(envelope.result, "session", ""),
        bundle=getattr(envelope.result, "bundle", ""),
        error=envelope.error,
        configured=envelope.configured,
    )
