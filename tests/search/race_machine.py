"""A race and its confirmation on a fake executor."""

from __future__ import annotations

from ortune.records import Block, Plan
from ortune.search import confirm
from ortune.search.halving import Entry
from simulated import Field, Raced


def plan(name: str) -> Plan:
    """A plan of its own for each number."""
    return Plan(settings={"intra_op_num_threads": int(name)})


def entry(name: str) -> Entry:
    """The plan as a proposal."""
    return Entry(plan=plan(name), origin="test")


def race(
    field: Field, *, seconds: float = 300.0, wrong: frozenset[str] = frozenset(), current: bool = False
) -> Raced:
    """A race on a machine, with so many seconds."""
    return Raced(machine=field, end_ns=seconds * 1e9, wrong=wrong, with_current=current)


def confirmed(run: Raced, winner: Entry, n_blocks: int, beyond_ns: float = 0.0) -> list[Block]:
    """The blocks of a confirmation."""
    blocks: list[Block] = []
    run.go(confirm.confirm(run, winner, n_blocks, blocks, beyond_ns=beyond_ns))
    return blocks
