"""A bench for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ortune.records import BenchResult, BenchRow, Envelope
from ortune.report import bench_words as words
from ortune.report import escape

INTERRUPTED = "stopped early; this is what was measured by then"
NARROW = 26  # a shape's name takes no more of a line


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal: the sentence first, the figures with their intervals, what supports them below."""
    result = _result(envelope)
    parts: list[RenderableType] = []
    if envelope.status == "interrupted":
        parts.append(_text(INTERRUPTED, "yellow"))
    parts += [_text(words.headline(row, result), "bold") for row in result.rows]
    parts.append(Text())
    if len(result.rows) == 1:
        parts.append(_figures(words.figures(result.rows[0], result)))
    else:
        for heads, rows in _shape_tables(result):
            parts += [_shapes(heads, rows), Text()]
        parts.append(_text(f"p99 and beyond: {words.no_slo(result)}", "dim"))
    parts += [Text(), _details(words.details(result, envelope.host)), _text(words.COMPARE, "dim")]
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def _figures(rows: Sequence[tuple[str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", no_wrap=True, style="dim")
    table.add_column("", no_wrap=True, justify="right")
    table.add_column("95 % interval", overflow="fold", header_style="dim")
    for name, value, interval in rows:
        table.add_row(name, _text(value), _text(interval))
    return table


Cell = tuple[str, str]


def _shape_tables(result: BenchResult) -> list[tuple[list[str], list[tuple[str, list[Cell]]]]]:
    """Tables with a row a shape: latency and its tails, mean and extremes, all else. A cell is value and interval."""
    rows = list(result.rows)
    tails = words.shown_tails(rows)
    heads = ["median", *(words.tail_name(t) for t in tails[0])]
    latency = [(row.case, _latency_cells(row, result)) for row in rows]
    rest = [
        (
            row.case,
            [
                words.throughput(row.throughput_per_s),
                words.time(row.load_ns),
                words.time(row.first_run_ns),
                words.time(row.cpu_per_run_ns),
                words.memory(row.peak_bytes),
            ],
        )
        for row in rows
    ]
    ends = [(row.case, [(value, span) for _, value, span in words.extremes(row)]) for row in rows]
    middle = [(["mean", "min", "max"], ends)] if all(len(cells) == 3 for _, cells in ends) else []
    return [
        (heads, latency),
        *middle,
        (["throughput", "load", "first run", "CPU a request", "peak memory"], rest),
    ]


def _latency_cells(row: BenchRow, result: BenchResult) -> list[Cell]:
    cells = [words.time(row.median_ns)]
    for item in words.shown_tails(list(result.rows))[list(result.rows).index(row)]:
        if item.latency_ns is None:
            cells.append(("not known", f"{item.needed:,} needed"))
        else:
            cells.append(words.time(item.latency_ns))
    return cells


def _shapes(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]]) -> Table:
    """Each cell holds the value, and under it the interval: six columns fit 80 characters."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold", max_width=NARROW)
    for head in heads:
        table.add_column(head, overflow="fold", header_style="dim")
    for case, cells in rows:
        table.add_row(_text(case), *(_cell(value, interval) for value, interval in cells))
    return table


def _cell(value: str, interval: str) -> Text:
    unit = value.rpartition(" ")[2]
    short = interval.partition(":")[0].replace(f" {unit}", "")
    return Text.assemble(_text(value), "\n", _text(short, "dim"))


def _details(details: Sequence[tuple[str, str]]) -> Table:
    """Two columns, so that a sentence that is folded stays under itself."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in details:
        grid.add_row(name, _text(text, "yellow" if name == "finding" else ""))
    return grid


def markdown(envelope: Envelope) -> str:
    """The same for a pull request or a page."""
    result = _result(envelope)
    lines = [f"### ortune bench: {escape.markdown(result.side.label)}", ""]
    if envelope.status == "interrupted":
        lines += [f"*{INTERRUPTED}*", ""]
    lines += [f"- {escape.markdown(words.headline(row, result))}" for row in result.rows]
    for row in result.rows:
        name = "" if row.case == "default" else row.case
        lines += ["", f"| {escape.markdown(name)} | | 95 % interval |", "|---|---:|---|"]
        lines += [
            "| " + " | ".join(escape.markdown(cell.strip()) for cell in cells) + " |"
            for cells in words.figures(row, result)
        ]
    lines += ["", *(f"- {name}: {escape.markdown(t)}" for name, t in words.details(result, envelope.host))]
    return "\n".join([*lines, "", words.COMPARE]) + "\n"


def _result(envelope: Envelope) -> BenchResult:
    assert isinstance(envelope.result, BenchResult)
    return envelope.result
