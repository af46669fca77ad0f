"""The difference of two profiles."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.trace import TraceInfo

SAME_WORK = 0.01
"""Maximum relative difference of the work of two nodes that counts as the same work."""


class DifferenceRow(Record, frozen=True, kw_only=True):
    """One category, operator or matched node on both sides, in nanoseconds of the mean steady run.

    Attributes:
        name: The common name; for nodes the name in the original model, if it is known.
        a_ns, b_ns: Time on each side; None if the category, operator or node is missing there.
        low_ns, high_ns: Interval of the difference. It is wide enough that of all rows whose interval excludes 0, at
            most 5 % have not changed. None with too few processes or runs.
        a_nodes, b_nodes: Names of its nodes in the optimised graphs.
        a_flops, b_flops, a_bytes, b_bytes: Operations and bytes of one run; None if unknown, or for rows other than
            nodes.
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
        """Operations of B divided by those of A, or bytes if there are no operations; None if unknown on a side."""
        for a, b in ((self.a_flops, self.b_flops), (self.a_bytes, self.b_bytes)):
            if a and b:
                return b / a
        return None

    @property
    def same_work(self) -> bool:
        """Whether the node exists on both sides with equal work; unknown work counts as equal."""
        both = self.a_ns is not None and self.b_ns is not None
        return both and abs((self.work_ratio or 1.0) - 1.0) <= SAME_WORK


class OperatorCount(Record, frozen=True, kw_only=True):
    """Number of nodes of one operator in the optimised graphs of both sides, including bodies of If, Loop and Scan.

    Attributes:
        name: The operator, with its domain if it is not ONNX's own: "com.microsoft.nchwc:Conv".
    """

    name: str
    a: int
    b: int


class GpuDifference(Record, frozen=True, kw_only=True):
    """Times of GPU kernels in both profiles, in the mean steady run; B minus A.

    Attributes:
        a_ns, b_ns: Total of all kernels.
        low_ns, high_ns: 95 % interval of the difference; None with too few processes or runs.
        a_kernels, b_kernels: Number of kernels per run.
        nodes: Differences by node, as in ``ProfileDifference``.
    """

    a_ns: float
    b_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    a_kernels: int = 0
    b_kernels: int = 0
    nodes: tuple[DifferenceRow, ...] = ()


class ProfileDifference(Record, frozen=True, kw_only=True):
    """Result of ``--against``: where the time went, B minus A. Each list has the largest contribution first.

    Attributes:
        low_ns, high_ns: 95 % interval of the difference of the mean run; None with too few processes or runs.
        sentence: The difference and its main cause, in one sentence.
        a_processes, b_processes: Number of profiled processes per side. Intervals are over processes; with one process
            per side they are over its runs, and do not cover the variation between processes.
        plain_ns: The difference measured without the profiler; None if it was not measured.
        a_slowdown_ratio, b_slowdown_ratio: Time of a profiled run over an unprofiled one; None if unknown.
        b_trace: The trace of B, if two traces are compared.
        by_name, by_order: Number of pairs of nodes that were matched by name and operator, and by operator and order
            only, because the origin of one of them in the model is unknown.
        same_ns: Sum of the nodes' differences within noise.
        rest_ns: Sum of the differences of all nodes that are not listed.
        only_a, only_b: Nodes that disappeared, and new nodes.
        gpu: Times of GPU kernels, if both profiles have them for each node.
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
