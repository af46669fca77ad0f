"""Time by category: default and winner next to each other, or only the default."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Envelope, ProfileDifference, ProfileResult
from ortune.show import difference_section as difference
from ortune.show import difference_tables, profile_nodes
from ortune.show.chart import Chart
from ortune.show.document import Block, Cell, Column, Line, Row, Table, table
from ortune.show.numbers import duration
from ortune.show.profile_tables import category_words
from ortune.show.stack import stack
from ortune.verbs._shared.tune_facts import current_plan
from ortune.verbs.tune import why_words as tune_why
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.sections._points import role_words

ORDER = 5
TITLE = "Where the time goes"
NOTE = "The mean run under ONNX Runtime's profiler, so it is longer than the measured runs. All bars have one scale."
MOST_NODES = 10


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return one bar of categories per side, and a table of the main nodes; [] without a profile."""
    result = envelope.result
    if result.why is not None:
        return _two_columns(result, result.why)
    return _default(result.default_profile) if result.default_profile is not None else []


def _two_columns(result: TuneResult, change: ProfileDifference) -> list[Block]:
    unit = difference_tables.unit(change)
    rows = [row for row in change.categories if row.a_ns or row.b_ns]
    whole = max(change.a_wall_ns, change.b_wall_ns)
    names = (role_words(result, "current" if current_plan(result) else "default"), "winner")
    rows.sort(key=lambda row: -(row.a_ns or 0.0))
    a, b = ([(row.name, (row.a_ns, row.b_ns)[i] or 0.0) for row in rows] for i in range(2))
    cells: list[Row] = [
        [
            Cell(category_words(row.name), key=f"c-{row.name}"),
            unit.show(row.a_ns or 0.0),
            unit.show(row.b_ns or 0.0),
            unit.signed(row.difference_ns),
        ]
        for row in rows
    ]
    walls = (change.a_wall_ns, change.b_wall_ns)
    total = [*(unit.show(ns) for ns in walls), unit.signed(walls[1] - walls[0])]
    heads = [*(f"{name}, {unit.name}" for name in names), "change"]
    return [
        Line(tune_why.gain_location(change), "strong"),
        _bar(names[0], a, walls[0], whole),
        _bar(names[1], b, walls[1], whole),
        _table(heads, cells, total),
        *([] if difference_tables.is_hidden(change) else difference.nodes(change, MOST_NODES)),
    ]


def _default(profile: ProfileResult) -> list[Block]:
    rows = profile_nodes.category_rows(profile)
    if not rows:
        return []
    *parts, total = rows
    sizes = sorted(((c.name, c.ns) for c in profile.categories), key=lambda size: -size[1])
    cells: list[Row] = [[Cell(text, key=f"c-{name}"), time, part] for name, text, time, part in parts]
    nodes = sorted(profile.nodes, key=lambda node: -node.time_ns)[:MOST_NODES]
    columns = [
        Column("most expensive nodes", "name"),
        Column("operator", "label"),
        Column("time"),
        Column("share"),
    ]
    dearest = [
        [profile_nodes.name_of(n), n.op_type, duration(n.time_ns), profile_nodes.share(n.time_ns, profile)]
        for n in nodes
    ]
    return [
        _bar("default", sizes, profile.wall_ns, profile.wall_ns),
        _table([profile_nodes.category_unit(profile).name, "%"], cells, total[2:]),
        table(columns, dearest),
    ]


def _table(heads: Sequence[str], rows: Sequence[Row], total: Sequence[str]) -> Table:
    columns = [Column("category", "text"), *(Column(head) for head in heads)]
    last = [Cell(text, tone="strong") for text in ("the run", *total)]
    return table(columns, [*rows, last])


def _bar(name: str, parts: Sequence[tuple[str, float]], wall_ns: float, whole: float) -> Chart:
    boxes = [(c, f"{category_words(c)}: {duration(ns)}", ns) for c, ns in parts]
    alt = f"{name}: " + "; ".join(f"{category_words(c)} {duration(ns)}" for c, ns in parts)
    return stack(f"{name} {duration(wall_ns)}", boxes, whole, alt)
