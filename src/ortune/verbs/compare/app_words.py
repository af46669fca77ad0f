"""An application with and without a bundle, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.durations import as_option
from ortune.printable import amount, operand
from ortune.records import Comparison, Envelope
from ortune.show.checks import control_words
from ortune.show.document import Block, Column, Document, Line, Pairs, Table, Tone, stopped, table
from ortune.show.numbers import change, counted, duration, significant, span, whole_percent
from ortune.show.output_words import outputs
from ortune.verbs.compare.result import CompareResult

_TONES: dict[str, Tone] = {"faster": "good", "slower": "bad"}
_FIGURES = {"wall": "time of the whole program", "cpu": "CPU time of the whole program"}


def headline(result: CompareResult) -> str:
    """Return the headline: the verdict, the deciding time with its interval, and the comparison of the outputs."""
    app, found = result.app, result.comparison
    assert app is not None
    assert found is not None
    if not result.outputs.comparable:
        return f"wrong outputs: {result.outputs.what}"
    blocks = amount(found.n_blocks, "block")
    figure = _FIGURES[app.basis]
    if found.ratio_high is None or not found.ratio_low:
        claim = f"{change(found.ratio)} {figure} in {blocks}, but 6 are needed to confirm a change"
    elif found.verdict in _TONES:
        low, high = sorted((1 / found.ratio_low, 1 / found.ratio_high))
        factors = (low, 1 / found.ratio, high)
        if found.verdict == "slower":
            low, high = sorted((found.ratio_low, found.ratio_high))
            factors = (low, found.ratio, high)
        less = "less" if found.verdict == "faster" else "more"
        claim = (
            f"{factors[1]:.2f}x {less} {figure} (95 % interval {factors[0]:.2f}-{factors[2]:.2f}x, {blocks})"
        )
    else:
        interval = span(found.ratio_low, found.ratio_high)
        claim = f"{change(found.ratio)} {figure} (95 % interval {interval}, {blocks})"
    word = found.verdict if found.verdict != "faster" or app.basis == "wall" else "less CPU time"
    busy = "; the machine was busy, so CPU time decides" if app.basis == "cpu" else ""
    again = f"; rerun with --budget {as_option(result.enough_s)}" if result.enough_s else ""
    return f"{word}: {claim}; {_outputs(result)}{busy}{again}"


NOT_COMPARED = "outputs were not compared: no call had the same inputs in both runs"


def within(run_ns: int, n_blocks: int) -> str:
    """Return a sentence with the duration of a run and the number of blocks that fit in the budget."""
    return f"each run takes {duration(run_ns)}; {amount(n_blocks, 'block')} of 3 runs"


def _outputs(result: CompareResult) -> str:
    assert result.app is not None
    if not result.app.n_outputs:
        return result.outputs.what
    return f"{outputs(result.outputs)} ({counted(result.app.n_outputs, 'call')})"


def document(envelope: Envelope[CompareResult]) -> Document:
    """Return the document: the headline, and a row for each statistic of the whole runs."""
    result = envelope.result
    app = result.app
    assert app is not None
    assert result.comparison is not None
    tone: Tone = _TONES.get(result.comparison.verdict, "unsure") if result.outputs.comparable else "bad"
    blocks: list[Block] = [*stopped(envelope), Line(headline(result), tone), _table(result)]
    return Document(
        title=f"ortune compare --app {operand(app.command)}",
        blocks=blocks,
        support=[Pairs(rows=list(_details(result)))],
    )


def _table(result: CompareResult) -> Table:
    app = result.app
    assert app is not None
    rows = [_row("time", app.wall), _row("CPU time", app.cpu)]
    memory = app.memory
    if memory is not None and memory.ratio is not None:
        known = memory.ratio_low is not None and memory.ratio_high is not None
        interval = span(memory.ratio_low, memory.ratio_high) if known and memory.ratio_low else "-"
        rows.append(["peak memory", "", "", change(memory.ratio), interval])
    metric = app.metric
    if metric is not None:
        known = metric.ratio_low is not None and metric.ratio_high is not None
        interval = span(metric.ratio_low, metric.ratio_high) if known and metric.ratio_low else "-"
        ratio = change(metric.new / metric.base) if metric.base else "-"
        rows.append([metric.pattern, significant(metric.base), significant(metric.new), ratio, interval])
    heads_ = ("without", "with the bundle", "change", "95 % interval")
    return table([Column("of the whole program", "name"), *(Column(head) for head in heads_)], rows)


def _row(name: str, comparison: Comparison) -> list[str]:
    values = [duration(v) if v else "-" for v in (comparison.base_value, comparison.new_value)]
    interval = span(comparison.ratio_low, comparison.ratio_high) if comparison.ratio_low else "-"
    return [name, *values, change(comparison.ratio), interval]


def _details(result: CompareResult) -> Iterator[tuple[str, str]]:
    app = result.app
    assert app is not None
    yield "bundle", app.bundle
    yield "noise", "; ".join(control_words(result.controls))
    if app.others_ratio is not None:
        yield "other programs", f"{whole_percent(app.others_ratio)} of the CPUs while measuring"
    for note in result.notes:
        yield "note", note
