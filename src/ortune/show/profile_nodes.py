"""The time of a profile by category, operator, node and layer, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.catalogue.providers import CPU, profile_names, short_name
from ortune.records import (
    Category,
    CategoryName,
    LayerTime,
    OperatorTime,
    ProfiledNode,
    ProfileResult,
    fused_with,
)
from ortune.show.document import Cell, Column, Table, Tone, table
from ortune.show.numbers import duration, percent, significant
from ortune.show.profile_tables import CATEGORIES, TimeUnit, apportion, category_words, unit_of

NAME = 48
"""Maximum number of characters of a node's name in a sentence."""
LOWER = ("int8", "float16", "bfloat16")
"""Number types whose presence adds a column with types to the table of nodes."""
TOP_OPERATORS = 10
TOP_NODES = 10
TOP_LAYERS = 6


def kernels_ns(result: ProfileResult) -> float:
    """Return the total time of device kernels in ns; 0 if the profile has no device kernels."""
    return sum(node.device_ns or 0.0 for node in result.nodes)


def undisturbed_ns(result: ProfileResult) -> float | None:
    """Return the time in ns of a run without interference; None if unknown or close to the time of the mean run."""
    return result.undisturbed.wall_ns if result.undisturbed is not None else None


def run_ns(result: ProfileResult) -> float:
    """Return the time in ns of the run that all tables show: without interference if known, or else the mean run."""
    return result.wall_ns if result.undisturbed is None else result.undisturbed.wall_ns


def run_categories(result: ProfileResult) -> tuple[Category, ...]:
    """Return the categories of the run that all tables show."""
    return result.categories if result.undisturbed is None else result.undisturbed.categories


def run_operators(result: ProfileResult) -> tuple[OperatorTime, ...]:
    """Return the operators of the run that all tables show, the most expensive first."""
    return result.operators if result.undisturbed is None else result.undisturbed.operators


def run_layers(result: ProfileResult) -> tuple[LayerTime, ...]:
    """Return the layers of the run that all tables show."""
    return result.layers if result.undisturbed is None else result.undisturbed.layers


def node_ns(node: ProfiledNode, result: ProfileResult) -> float:
    """Return the node's time in ns in the run that all tables show."""
    return node.time_ns if result.undisturbed is None else node.least_ns


def node_share(node: ProfiledNode, result: ProfileResult) -> str:
    """Return the node's percentage of ``run_ns``: "12.3 %"."""
    return share(node_ns(node, result), result)


def share(ns: float, result: ProfileResult) -> str:
    """Return a time as a percentage of ``run_ns``: "12.3 %"; "" if the run took no time."""
    return percent(ns / run_ns(result)) if run_ns(result) else ""


def name_of(node: ProfiledNode) -> str:
    """Return the name of an optimised node's first original node, or its own name if the original is unknown."""
    return node.originals[0] if node.originals else node.name


def beneath(node: ProfiledNode) -> str:
    """Return a node's second line: operator, nodes fused with it, name in the optimised graph, purpose if inserted.

    Parts that the first line already contains are left out.
    """
    other = node.name if node.originals and node.name != node.originals[0] else ""
    has_operator = node.op_type.lower() in name_of(node).lower()
    parts = [] if has_operator and not other else [node.op_type]
    parts += [with_] if (with_ := fused_with(node.originals)) else []
    parts += ["as", other] if other else []
    parts += [f"inserted: {node.purpose}"] if node.purpose else []
    return " ".join(parts)


def names(result: ProfileResult) -> dict[str, str]:
    """Return a mapping from the nodes' names in the optimised graph to the names that users see."""
    return {node.name: name_of(node) for node in result.nodes}


def category_name(name: CategoryName, result: ProfileResult) -> str:
    """Return a category in words.

    If a device computes asynchronously, the host's time in nodes is not called computing.
    """
    waits = any(c.name == "device-wait" and c.ns > 0 for c in run_categories(result))
    on_the_cpu = result.providers.get(CPU.name, 0.0)
    if name == "kernels" and waits and 2 * on_the_cpu < sum(result.providers.values()):
        return "in nodes, by the host's clock"
    if name == "device-wait":
        return "waiting for the device, with transfers"
    if name == "device-copies" and profile_names(lambda p: p.queues) & result.providers.keys():
        return "copies between devices, with waits"  # a copy waits for all work queued before it
    return CATEGORIES[name]


def category_rows(result: ProfileResult) -> list[tuple[CategoryName | None, str, str, str]]:
    """Return a tuple (name, words, time, percentage) for each category with time, the largest first.

    The last row is the sum.
    """
    there = [c for c in run_categories(result) if c.ns]
    if not there:
        return []
    unit = unit_of(run_ns(result))
    whole = sum(c.ns for c in there)
    times = apportion([c.ns / unit.scale for c in there], unit.digits)
    shares = apportion([100 * c.ns / whole for c in there], 1) if whole else [0.0] * len(there)
    rows: list[tuple[CategoryName | None, str, str, str]] = [
        (c.name, category_name(c.name, result), f"{t:.{unit.digits}f}", f"{s:.1f}")
        for c, t, s in zip(there, times, shares, strict=True)
    ]
    rows.sort(key=lambda row: -float(row[2]))
    return [*rows, (None, "the run", f"{sum(times):.{unit.digits}f}", f"{sum(shares):.1f}")]


def absent_categories(result: ProfileResult) -> str:
    """Return a phrase on the categories without time in the run; "" if there are none or the host was not traced."""
    if result.trace.device_only:
        return ""
    words = [CATEGORIES[c.name] for c in run_categories(result) if not c.ns and c.name != "device-idle"]
    return f"nothing in: {', '.join(words)}" if words else ""


def category_unit(result: ProfileResult) -> TimeUnit:
    """Return the time unit of ``category_rows``."""
    return unit_of(run_ns(result))


def operators(result: ProfileResult, most: int = TOP_OPERATORS) -> Table:
    """Return a table of the ``most`` most expensive operators, and the sum of the other operators."""
    of_run = run_operators(result)
    several = len({o.provider for o in of_run}) > 1
    rows = []
    for o in of_run[:most]:
        provider = short_name(o.provider)
        name = f"{o.op_type} on {provider}" if several and provider else o.op_type
        rows.append([Cell(name), *_part_cells(o.time_ns, o.n_nodes, result)])
    rest = of_run[most:]
    if rest:
        ns, count = sum(o.time_ns for o in rest), sum(o.n_nodes for o in rest)
        name = f"{len(rest)} other operators" if len(rest) > 1 else "1 other operator"
        rows.append([Cell(name, tone="faint"), *_part_cells(ns, count, result, "faint")])
    return _named(f"operators{_which_run(result)}", ("operator", "time", "share", "nodes"), rows)


def _which_run(result: ProfileResult) -> str:
    """Return " (without interference)" if the tables show this run; "" if they show the mean run."""
    return "" if result.undisturbed is None else " (without interference)"


def _named(title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Return a table whose first column contains names."""
    columns = [Column(heads[0], "name"), *(Column(head) for head in heads[1:])]
    return table(columns, rows, title=title, dense=True)


def _part_cells(ns: float, n_nodes: int, result: ProfileResult, tone: Tone = "") -> list[Cell]:
    """Return three cells: the time, its percentage of the run, and the number of nodes."""
    return [Cell(text, tone=tone) for text in (duration(ns), share(ns, result), str(n_nodes))]


def nodes(result: ProfileResult, most: int = TOP_NODES, after: int = 0) -> Table:
    """Return a table of the nodes ranked ``after + 1`` to ``most`` by device time, then by host time.

    Columns without values are left out.
    """
    top = sorted(result.nodes, key=lambda n: (-(n.device_ns or 0.0), -node_ns(n, result)))[after:most]
    disturbed = undisturbed_ns(result) is not None
    floors, waits = any(n.floor_ns for n in top), any(wait(n, result) for n in top)
    on_device = kernels_ns(result)
    heads = ["node", "on the device", "of it", "host", "share"] if on_device else ["node", "time", "share"]
    types = any(n.precision in LOWER for n in result.nodes)
    heads += ["mean"] if disturbed else []
    heads += ["type"] if types else []
    heads += ["x roofline", "bound"] if floors else []
    heads += ["wait"] if waits else []
    rows = []
    for node in top:
        cells = [duration(node_ns(node, result)), node_share(node, result)]
        if on_device:
            cells = [duration(node.device_ns or 0.0), percent((node.device_ns or 0.0) / on_device), *cells]
        cells += [duration(node.time_ns)] if disturbed else []
        cells += [node.precision] if types else []
        # The ratio means nothing if most of the time is for starting the node.
        ratio = "" if node.bound == "overhead" else floor_ratio(node)
        cells += [ratio, node.bound] if floors else []
        cells += [wait(node, result)] if waits else []
        rows.append([Cell(name_of(node), beneath(node)), *(Cell(text) for text in cells)])
    more = len(result.nodes) - len(top)
    which = f"the next {len(top)}" if after else f"the most expensive {len(top)}"
    about = [f"{which} of {len(result.nodes)} in the optimised graph"] if more else []
    about += ["without interference"] if disturbed else []
    title = f"nodes ({', '.join(about)})" if about else "nodes"
    return _named(title, heads, rows)


def floor_ratio(node: ProfiledNode) -> str:
    """Return the node's time without interference divided by its minimum on this machine: "1.4"; "" if unknown."""
    return significant(node.least_ns / node.floor_ns) if node.floor_ns else ""


def wait_ratio(node: ProfiledNode, result: ProfileResult) -> float:
    """Return the fraction of the node's time that is spent waiting for threads, in the run whose time is ``run_ns``."""
    waited_ns = node.wait_ns if result.undisturbed is None else node.least_wait_ns
    return waited_ns / ns if (ns := node_ns(node, result)) else 0.0


def wait(node: ProfiledNode, result: ProfileResult) -> str:
    """Return ``wait_ratio`` as a percentage; "" if it is below 0.5 %."""
    part = wait_ratio(node, result)
    return percent(part, 0) if part >= 0.005 else ""


def layer_tree(layers: Sequence[LayerTime]) -> dict[str, list[LayerTime]]:
    """Group the layers by the name of their nearest parent, "" for the outermost layers.

    Each group begins with its most expensive layer.
    """
    names = {layer.layer for layer in layers}
    tree: dict[str, list[LayerTime]] = {}
    for layer in layers:
        above = layer.layer
        while above := above.rpartition("/")[0]:
            if above in names:
                break
        tree.setdefault(above, []).append(layer)
    for inner in tree.values():
        inner.sort(key=lambda one: (-one.time_ns, one.layer))
    return tree


def layers(result: ProfileResult, most: int = TOP_LAYERS) -> Table:
    """Return a table of the outermost level that has more than one layer."""
    tree = layer_tree(run_layers(result))
    level = tree.get("", [])
    while len(level) == 1 and tree.get(level[0].layer):
        level = tree[level[0].layer]
    rows = [[Cell(one.layer), *_part_cells(one.time_ns, one.n_nodes, result)] for one in level[:most]]
    more = len(level) - len(rows)
    title = f"layers (the most expensive {len(rows)} of {len(level)})" if more else "layers"
    return _named(title, ("layer", "time", "share", "nodes"), rows)


def owner_name(name: str, op_type: str, called: Mapping[str, str]) -> str:
    """Return the name that users see for a row, which is a category if it has no operator.

    ``called`` maps node names in the optimised graph to the names that users see.
    """
    return called.get(name, name) if op_type else category_words(name)


def categories(result: ProfileResult) -> Table:
    """Return a table of the categories with one bar each; the last row is the sum."""
    rows = category_rows(result)
    absent = absent_categories(result)
    tones: list[Tone] = [
        "strong" if name is None else "look" if name == "unexplained" and abs(float(part)) > 2 else ""
        for name, _, _, part in rows
    ]
    return table(
        [Column("", "text"), Column(category_unit(result).name), Column("%")],
        [
            [Cell(cell, tone=tone) for cell in (f"  {text}", time, part)]
            for (_, text, time, part), tone in zip(rows, tones, strict=True)
        ],
        title=f"where the time goes{_which_run(result)}",
        bars=[0.0 if n is None else max(0.0, min(1.0, float(part) / 100)) for n, _, _, part in rows],
        notes=[absent] if absent else [],
    )
