"""The most expensive nodes with all their measurements."""

from __future__ import annotations

from ortune.catalogue.providers import short_name
from ortune.printable import amount
from ortune.records import Envelope, ProfiledNode, ProfileResult
from ortune.show.document import Block, Cell, Column, Fold, Line, table
from ortune.show.numbers import duration, operations
from ortune.show.profile_nodes import (
    LOWER,
    floor_ratio,
    name_of,
    node_ns,
    node_share,
    undisturbed_ns,
    wait,
    wait_ratio,
)

ORDER = 50
TITLE = "Nodes"
NOTE = (
    "Nodes by your own names; hover for the name in the optimised graph. Bound: the least time this machine "
    "needs for the node's work. x: its undisturbed time in multiples of the bound; lost: the time beyond. "
    "Overhead: starting the node is most of its cost. If other programs interfered, time and share are without "
    "interference, and the mean is with it. Click a column header to sort."
)
MOST = 200
UNMAPPED = 200
COLUMNS = (
    Column("node", "name"),
    Column("operator", "label"),
    Column("time"),
    Column("share"),
    Column("mean"),
    Column("type", "label"),
    Column("provider", "label"),
    Column("calls"),
    Column("wait"),
    Column("rate"),
    Column("x"),
    Column("bound", "label"),
    Column("lost"),
)


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return a table of at most ``MOST`` nodes, without columns that are empty or constant in this profile."""
    result = envelope.result
    top = sorted(result.nodes, key=lambda n: -node_ns(n, result))[:MOST]
    floors = any(n.floor_ns for n in top)
    there = {
        "provider": len({n.provider for n in result.nodes}) > 1,
        "type": any(n.precision in LOWER for n in result.nodes),
        "calls": any(n.calls != 1 for n in top),
        "wait": any(wait(n, result) for n in top),
        "rate": any(n.flops for n in top),
        **dict.fromkeys(("x", "bound", "lost"), floors),
        "mean": undisturbed_ns(result) is not None,
    }
    columns = [column for column in COLUMNS if there.get(column.head, True)]
    cells = [_cells(node, result) for node in top]
    rest = len(result.nodes) - len(top)
    more = f"{rest} more of {len(result.nodes)}: the JSON document and --export nodes-csv=FILE have all."
    return [
        table(
            columns,
            [[row[column.head] for column in columns] for row in cells],
            notes=[more] if rest else [],
            sortable=True,
        ),
        Fold(
            title=f"{amount(len(result.unmapped), 'node')} of the optimised graph of unknown origin in the model",
            blocks=[Line(", ".join(result.unmapped[:UNMAPPED]), "faint")],
        ),
    ]


def _about(node: ProfiledNode) -> str:
    """Return a node's other names, purpose and parent as text."""
    parts = [f"with {', '.join(node.originals[1:])}"] if node.originals[1:] else []
    if node.originals and node.name != node.originals[0]:
        parts.append(f"as {node.name}")
    parts += [f"inserted: {node.purpose}"] if node.purpose else []
    parts += [f"in {node.inside}"] if node.inside else []
    return "; ".join(parts)


def _cells(node: ProfiledNode, result: ProfileResult) -> dict[str, Cell]:
    """Return the cells of a node's row, keyed by column."""
    lost = max(0.0, node.least_ns - node.floor_ns) if node.floor_ns else None
    rate = node.flops / node.least_ns * 1e9 if node.flops and node.least_ns else None
    return {
        "node": Cell(name_of(node), about=_about(node)),
        "operator": Cell(node.op_type),
        "time": Cell(duration(node_ns(node, result)), order=node_ns(node, result)),
        "share": Cell(node_share(node, result), order=node_ns(node, result)),
        "mean": Cell(duration(node.time_ns), order=node.time_ns),
        "type": Cell(node.precision),
        "provider": Cell(short_name(node.provider)),
        "calls": Cell(f"{node.calls:g}", order=node.calls),
        "wait": Cell(wait(node, result), order=wait_ratio(node, result)),
        "rate": Cell(f"{operations(rate)}/s" if rate else "", order=rate or 0.0),
        "x": Cell(floor_ratio(node), order=node.least_ns / node.floor_ns if node.floor_ns else 0.0),
        "bound": Cell(node.bound),
        "lost": Cell(duration(lost) if lost is not None else "", order=lost or 0.0),
    }
