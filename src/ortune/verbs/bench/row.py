"""The row of a benchmarked model among several."""

from __future__ import annotations

from ortune.records import Envelope, Estimate, ModelRow, RowFigure, RowUnit
from ortune.verbs._shared.model_row import of_answer
from ortune.verbs.bench import arrival_words
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.bench.words import headlines


def row(envelope: Envelope[BenchResult]) -> ModelRow:
    """Return the row of a benchmark: the metrics of the first shape, and a headline on all shapes."""
    result = envelope.result
    figures: tuple[RowFigure, ...] = ()
    if result.rows:
        first = result.rows[0]
        figures = (
            *([] if arrival_words.no_latency(first, result) else [_figure("p50", "ns", first.median_ns)]),
            _figure("throughput", "per-second", first.throughput_per_s),
            _figure("load time", "ns", first.load_ns),
            *([_figure("peak memory", "bytes", first.peak_bytes)] if first.peak_bytes else []),
        )
    more = len(result.rows) - 1
    shapes = f"{first.case}; {more} more {'shape' if more == 1 else 'shapes'}" if more > 0 else ""
    return of_answer(envelope, headlines(result), figures=figures, remarks=(shapes,))


def _figure(name: str, unit: RowUnit, estimate: Estimate) -> RowFigure:
    return RowFigure(name=name, unit=unit, value=estimate.value, low=estimate.low, high=estimate.high)
