"""Operator times from one profiled process."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.profile import OperatorTime


class NodeTime(Record, frozen=True, kw_only=True):
    """One node of the optimised graph in a profile.

    Attributes:
        share_ratio: Fraction of the time of all operators.
        originals: The nodes of the original model that it replaces; () if unknown, or if it was inserted.
        purpose: The purpose of a node that the optimiser inserted; "" for all others.
    """

    name: str
    op_type: str
    provider: str = ""
    time_ns: float
    share_ratio: float
    originals: tuple[str, ...] = ()
    purpose: str = ""


class OperatorProfile(Record, frozen=True, kw_only=True):
    """The distribution of the time of a run, from one profiled process.

    Attributes:
        n_runs: Number of profiled runs used.
        run_ns: Time of the typical profiled run.
        slowdown_ratio: Time of that run divided by the time of a run in the unprofiled process; above 1 is slower.
            These are two processes, so a few per cent mean nothing.
        operators: All operators, the most expensive first.
        nodes: The most expensive nodes.
        complete: False if the profile was truncated.
    """

    n_runs: int
    run_ns: float
    slowdown_ratio: float | None = None
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[NodeTime, ...] = ()
    complete: bool = True

    def share_of_run(self, time_ns: float) -> float:
        """Return a time as a fraction of the typical profiled run, at most 1; 0 if that run has no time."""
        return min(1.0, time_ns / self.run_ns) if self.run_ns else 0.0
