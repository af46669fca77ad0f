"""Memory of a run in a profile, of an idle process, and of calls with several sizes in turn."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class MemoryPoint(Record, frozen=True, kw_only=True):
    """Memory after one node of a run: bytes in use by values, and bytes held by the arena (None if unknown)."""

    node: str
    in_use_bytes: int
    held_bytes: int | None = None


class MemoryKept(Record, frozen=True, kw_only=True):
    """Memory of a process after its runs.

    Attributes:
        idle_bytes: Resident memory between runs; ``idle_anonymous_bytes`` is the part without file-backed pages.
        children_bytes: Resident memory of its child processes.
        group_bytes: Memory of its control group, including all other processes in it; None if it has none.
        group_cache_bytes: The part of ``group_bytes`` that the system uses as a file cache.
        released_bytes: Resident memory after sessions and inputs were deleted; None if they were not deleted.
        trimmed_bytes: Resident memory after ``malloc_trim`` as well; None if the allocator has no such function.
    """

    idle_bytes: int
    idle_anonymous_bytes: int | None = None
    children_bytes: int = 0
    group_bytes: int | None = None
    group_cache_bytes: int | None = None
    released_bytes: int | None = None
    trimmed_bytes: int | None = None


MemoryKind = Literal[
    "value", "values", "rounding", "planned", "shared", "session", "inputs", "weights", "libraries", "runtime"
]


class MemoryOwner(Record, frozen=True, kw_only=True):
    """One use of memory at the peak.

    Attributes:
        kind: "value" (a single value), "values" (all smaller ones), "rounding" (allocated by the arena beyond the
            requested size), "planned" (the block that later runs allocate for all values, beyond what is in use at
            once), "shared" (negative: buffers shared by two values), "session" (held by the allocator before the run:
            packed weights), "inputs", "weights" (as stored), "libraries" (the process before the session: interpreter,
            ONNX Runtime's code), "runtime" (the rest of the process: ONNX Runtime itself, copies of weights during
            loading, the profiler).
        name: The node that produced a value.
        bytes: Size in bytes.
        count: Number of values.
    """

    kind: MemoryKind
    name: str = ""
    bytes: int
    count: int = 1


class MemoryProfile(Record, frozen=True, kw_only=True):
    """Memory over the nodes of one run.

    Attributes:
        source: "profile" (the allocator's own records) or "liveness" (from sizes and last uses).
        run: Index of the run, from 0: a steady one, or the first with its shapes if later runs allocate one planned
            block, which hides nodes; None for "liveness".
        peak_bytes: Peak of the allocator's memory in use, in this run or another with the same shapes.
        peak_node: The node of this run at the peak.
        held_bytes: Peak of the memory held by the arena in any run.
        at_peak: Values or nodes that hold memory at the peak, the largest first, at most ten.
        weights_bytes: Size of the weights that the nodes read.
        owners: All uses of memory at the peak, the largest first.
        total_bytes: Sum of ``owners``: allocator, weights, inputs, and the process as far as it was observed.
        n_unknown: Number of values of unknown size, which are not included.
        resident_bytes: Peak resident memory of the process; None if it was not observed.
    """

    source: Literal["profile", "liveness"]
    run: int | None = None
    peak_bytes: int
    peak_node: str
    held_bytes: int | None = None
    weights_bytes: int | None = None
    at_peak: tuple[tuple[str, int], ...] = ()
    owners: tuple[MemoryOwner, ...] = ()
    total_bytes: int | None = None
    n_unknown: int = 0
    resident_bytes: int | None = None
    points: tuple[MemoryPoint, ...] = ()


OneSize = Literal["", "given", "unguessed", "refused", "budget"]
"""Why only one size was fed: the user gave sizes, none was guessed, the model refuses others, or the budget is too
small; "" if several were fed."""


class PeakInTurn(Record, frozen=True, kw_only=True):
    """Peak memory of a process that is fed several sizes in turn: memory can grow when sizes change between calls.

    Attributes:
        sizes: Names of the sizes, in the order of feeding; () if only one size was fed.
        peak_bytes: Peak of the process, a single observation; None if only one size was fed.
        one_size: Why only one size was fed; "" if several were fed.
        largest: The largest of the sizes, with all dimensions at their largest size; "" if it was not run alone.
        largest_bytes: Peak of a fresh process that runs it once: a cold start with a large request. A single
            observation.
    """

    sizes: tuple[str, ...] = ()
    peak_bytes: int | None = None
    one_size: OneSize = ""
    largest: str = ""
    largest_bytes: int | None = None
