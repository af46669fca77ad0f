"""Tables of the difference between two profiles, and the texts in their rows."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import CategoryName, DifferenceRow, GpuDifference, ProfileDifference
from ortune.show.document import Cell, Column, Table, table
from ortune.show.numbers import factor, operations
from ortune.show.numbers import size as memory_size
from ortune.show.profile_tables import TimeUnit, category_words, unit_of

TOP_OPERATORS = 6
TOP_NODES = 10

DROWNED = 3.0  # times the unprofiled run: above this slowdown a profile does not explain the difference
UNEVEN = 1.5  # ratio of the two sides' slowdowns above which the profiler may be the whole difference


def unit(difference: ProfileDifference) -> TimeUnit:
    """Return the time unit of all columns of a difference, chosen from the longer run."""
    return unit_of(max(difference.a_wall_ns, difference.b_wall_ns))


def tables(difference: ProfileDifference) -> list[Table]:
    """Return tables by category, operator, node and, if known, GPU kernels; the largest differences come first."""
    kernels = [_gpu(difference.gpu)] if difference.gpu is not None else []
    if is_hidden(difference):
        return kernels
    categories = [_category(row) for row in difference.categories]
    return [
        _table("by category", "category", categories, unit(difference), len(categories)),
        _table("by operator", "operator", difference.operators, unit(difference), TOP_OPERATORS),
        _table("by node", "node", difference.nodes, unit(difference), TOP_NODES),
        *kernels,
    ]


def _gpu(gpu: GpuDifference) -> Table:
    """Return the table of GPU kernel times by node, in a unit chosen from the total kernel times."""
    return _table("on the GPU, by node", "node", gpu.nodes, unit_of(max(gpu.a_ns, gpu.b_ns)), TOP_NODES)


def _table(title: str, head: str, rows: Sequence[DifferenceRow], unit: TimeUnit, most: int) -> Table:
    """Return a table of the first ``most`` differences, without the columns for interval and work if they are empty."""
    shown = rows[:most]
    columns = {
        f"A {unit.name}": [_time(row.a_ns, unit) for row in shown],
        f"B {unit.name}": [_time(row.b_ns, unit) for row in shown],
        "B - A": [unit.signed(row.difference_ns) for row in shown],
    }
    for name, cells in (
        ("interval", [interval(row, unit) for row in shown]),
        ("work", [work(row) for row in shown]),
    ):
        if any(cells):
            columns[name] = cells
    cut = f" (the first {len(shown)} of {len(rows)})" if len(rows) > len(shown) else ""
    return table(
        [Column(head, "name"), *(Column(name) for name in columns)],
        [
            [
                Cell(text, beneath(row) if i == 0 else "", "faint" if within_noise(row) else "")
                for i, text in enumerate((row.name, *cells))
            ]
            for row, *cells in zip(shown, *columns.values(), strict=True)
        ],
        title=f"{title}{cut}",
        dense=True,
    )


def _time(ns: float | None, unit: TimeUnit) -> str:
    return unit.show(ns) if ns is not None else ""


def work(row: DifferenceRow) -> str:
    """Return B's work relative to A's: "3.00x FLOP", "same"; for a row of only one side, that side's work.

    "" if the work is unknown.
    """
    ratio = row.work_ratio
    if ratio is not None:
        of = "FLOP" if row.a_flops and row.b_flops else "bytes"
        return "same" if row.same_work else f"{factor(ratio)}x {of}"
    flops, size = row.a_flops or row.b_flops, row.a_bytes or row.b_bytes
    if flops and (row.a_ns is None or row.b_ns is None):
        return operations(flops)
    return memory_size(round(size)) if size and (row.a_ns is None or row.b_ns is None) else ""


def interval(row: DifferenceRow, unit: TimeUnit) -> str:
    """Return the interval of the difference: "+2.90 to +3.50"; "" if there is none."""
    if row.low_ns is None or row.high_ns is None:
        return ""
    return f"{unit.signed(row.low_ns)} to {unit.signed(row.high_ns)}"


def within_noise(row: DifferenceRow) -> bool:
    """Return whether a row is on both sides with the same work and the interval of its difference includes zero."""
    certain = row.a_ns is None or row.b_ns is None or not row.same_work
    return not certain and row.low_ns is not None and _no_change(row.difference_ns, row.low_ns, row.high_ns)


def _no_change(ns: float, low_ns: float | None, high_ns: float | None) -> bool:
    return low_ns <= 0 <= high_ns if low_ns is not None and high_ns is not None else not ns


def beneath(row: DifferenceRow) -> str:
    """Return the row's operators, or "" if there are none or the name already contains them."""
    return row.op_type if row.op_type and row.op_type.lower() not in row.name.lower() else ""


def _category(row: DifferenceRow) -> DifferenceRow:
    return DifferenceRow(
        name=category_words(row.name),
        a_ns=row.a_ns,
        b_ns=row.b_ns,
        difference_ns=row.difference_ns,
        low_ns=row.low_ns,
        high_ns=row.high_ns,
    )


def categories(difference: ProfileDifference) -> list[tuple[CategoryName | str, DifferenceRow]]:
    """Return pairs of a category's name and its row; the row has the name in words."""
    return [(row.name, _category(row)) for row in difference.categories]


def is_hidden(difference: ProfileDifference) -> bool:
    """Return whether the profiler's overhead is so large that the profiles do not explain the difference."""
    a, b = difference.a_slowdown_ratio, difference.b_slowdown_ratio
    ratios = [ratio for ratio in (a, b) if ratio]
    if not ratios or max(ratios) > DROWNED:
        return bool(ratios)
    if not a or not b or max(ratios) <= UNEVEN * min(ratios):
        return False
    more, plain = difference.b_wall_ns - difference.a_wall_ns, difference.plain_ns
    if plain is None:
        plain = difference.b_wall_ns / b - difference.a_wall_ns / a
    # The profiler's overhead would be more than half of the difference between the profiles.
    return abs(more - plain) > abs(more) / 2


def shows_reason(difference: ProfileDifference) -> bool:
    """Return whether the profiles show a difference in the whole run or in single nodes."""
    nodes = any(row.low_ns is not None and not within_noise(row) for row in difference.nodes)
    return not is_hidden(difference) and (nodes or not no_difference(difference))


def no_difference(difference: ProfileDifference) -> bool:
    """Return whether the whole run takes the same time on both sides, within the interval if there is one."""
    return not is_hidden(difference) and _no_change(
        difference.b_wall_ns - difference.a_wall_ns, difference.low_ns, difference.high_ns
    )
