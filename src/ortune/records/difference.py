"""The difference of two profiles."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.trace import TraceInfo

SAME_WORK = 0.01
"""Relative difference of the work of two nodes up to which it is the same."""


class DifferenceRow(Record, frozen=True, kw_only=True):
    """One category, operator or matched node on both sides; nanoseconds of the mean steady run.

    Attributes:
        name: What both have in common; for nodes the user's own node, where that is known.
        a_ns, b_ns: None where it is not there on that side.
        low_ns, high_ns: Interval of the difference, as wide as it must be so that of all rows of its list which leave
            out 0 at most 5 % have not changed; None with too few processes or runs.
        a_nodes, b_nodes: Names in the optimised graphs.
        a_flops, b_flops, a_bytes, b_bytes: Operations and bytes of one run, which no clock is needed for; None where
            not known, or for rows that are no nodes.
    """

    name: str
    op_type: str = ""
    a_ns: float | None = None
    b_ns: float | None = None
    difference_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    a_nodes: tuple[str, ...] = ()
    b_nodes: tuple[str, ...] = ()
    a_flops: float | None = None
    b_flops: float | None = None
    a_bytes: float | None = None
    b_bytes: float | None = None

    @property
    def work_ratio(self) -> float | None:
        """B's operations over A's, of their bytes where there are none; None where not known or on one side alone."""
        for a, b in ((self.a_flops, self.b_flops), (self.a_bytes, self.b_bytes)):
            if a and b:
                return b / a
        return None

    @property
    def same_work(self) -> bool:
        """Whether it is there on both sides, and does as much on either, as far as that is known."""
        both = self.a_ns is not None and self.b_ns is not None
        return both and abs((self.work_ratio or 1.0) - 1.0) <= SAME_WORK


class GpuDifference(Record, frozen=True, kw_only=True):
    """Kernels on a GPU that both profiles timed, of the mean steady run; B minus A.

    Attributes:
        a_ns, b_ns: All of them together.
        low_ns, high_ns: Interval of the difference (95 %); None with too few processes or runs.
        a_kernels, b_kernels: How many a run has.
        nodes: By node, as in ``ProfileDifference``.
    """

    a_ns: float
    b_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    a_kernels: int = 0
    b_kernels: int = 0
    nodes: tuple[DifferenceRow, ...] = ()


class ProfileDifference(Record, frozen=True, kw_only=True):
    """``--against``: where the time went, B minus A. Each list is sorted by contribution, the largest first.

    Attributes:
        low_ns, high_ns: Interval of the difference of the mean run (95 %); None with too few processes or runs.
        sentence: The difference and its owner, in one sentence.
        a_processes, b_processes: Profiled processes on each side. Intervals are over them; with one on each side they
            are over its runs, and tell nothing of how processes differ.
        plain_ns: The difference that was measured without the profiler; None where it was not.
        a_slowdown_ratio, b_slowdown_ratio: A profiled run over one that is not profiled; None where not known.
        b_trace: What was read for B, where two traces are compared.
        by_name, by_order: Pairs of nodes that were matched by name and operator, and by operator in order alone, since
            of one of them it is not known which node of the model it stands for.
        same_ns: Sum of the nodes' differences that are within noise.
        rest_ns: Sum of the differences of nodes beyond the list.
        only_a, only_b: Nodes that vanished and that appeared.
        gpu: What kernels on a GPU took, where both profiles tell it of each node.
    """

    a: str
    b: str
    a_wall_ns: float
    b_wall_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    plain_ns: float | None = None
    sentence: str = ""
    a_processes: int = 1
    b_processes: int = 1
    a_slowdown_ratio: float | None = None
    b_slowdown_ratio: float | None = None
    categories: tuple[DifferenceRow, ...] = ()
    operators: tuple[DifferenceRow, ...] = ()
    nodes: tuple[DifferenceRow, ...] = ()
    b_trace: TraceInfo | None = None
    by_name: int = 0
    by_order: int = 0
    same_ns: float = 0.0
    rest_ns: float = 0.0
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    gpu: GpuDifference | None = None
