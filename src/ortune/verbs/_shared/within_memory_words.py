"""Sentences about the effect of a memory limit on a tuning."""

from __future__ import annotations

from ortune.show.document import Cell, Column, Table, table
from ortune.show.numbers import duration, memory
from ortune.verbs.tune.result import MemoryTry, TuneResult


def sentences(result: TuneResult) -> list[str]:
    """Return sentences on how the plans fit in the memory limit; empty without a limit."""
    within = result.within_memory
    if within is None:
        return []
    limit = memory(within.limit_bytes)
    said = []
    if within.current is not None and not within.holds(within.current):
        said.append(f"the current configuration needs {_needs(within.current)}, more than {limit}")
    if within.base is None:
        said.append(f"the default needs {_needs(within.default)} of at most {limit}")
    else:
        base = next(each for each in within.tried if each.plan == within.base)
        n = sum(within.holds(each) for each in within.tried)
        which = "the only configuration" if n == 1 else f"the fastest of {n} configurations"
        said.append(
            f"the default needs {_needs(within.default)}, more than {limit}; the baseline is {within.base.describe()}, "
            f"{which} within the limit ({_needs(base)})"
        )
    won = result.winner_figures
    if won is not None and result.winner != result.default:
        idle = "" if won.idle_bytes is None else f", {memory(won.idle_bytes)} while idle"
        said.append(f"the winner needs {memory(won.peak_bytes)}{idle}")
    return said


def _needs(tried: MemoryTry) -> str:
    idle = "" if tried.idle_bytes is None else f", {memory(tried.idle_bytes)} while idle"
    return tried.failed or f"{memory(tried.peak_bytes)}{idle}"


def tried(result: TuneResult) -> Table:
    """Return a table of the configurations that were tried because the default needs more memory than the limit."""
    within = result.within_memory
    columns = [
        Column("configuration", "text"),
        Column("peak memory"),
        Column("idle memory"),
        Column("mean latency"),
        Column("", "text"),
    ]
    if within is None or within.base is None:
        return table(columns, [])
    rows = []
    for each in (*within.tried, within.default):
        name = Cell("default" if each is within.default else each.plan.describe())
        if each.failed:
            rows.append((name, *(Cell("") for _ in range(3)), Cell(each.failed)))
            continue
        sizes = (Cell(memory(size)) for size in (each.peak_bytes, each.idle_bytes))
        over = "" if within.holds(each) else "over the limit"
        rows.append((name, *sizes, Cell(duration(each.latency_ns)), Cell(over)))
    return table(columns, rows, title="memory over all sizes, one process each")
