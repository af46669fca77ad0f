"""The memory of one run in a profile."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class MemoryPoint(Record, frozen=True, kw_only=True):
    """After one node of a run: bytes of values in use, and held by the arena (None without its figures)."""

    node: str
    in_use_bytes: int
    held_bytes: int | None = None


MemoryKind = Literal[
    "value", "values", "rounding", "planned", "shared", "session", "inputs", "weights", "libraries", "runtime"
]


class MemoryOwner(Record, frozen=True, kw_only=True):
    """What holds memory at the peak.

    Attributes:
        kind: "value" (one, as large as was asked for), "values" (all smaller ones), "rounding" (what the arena gave
            beyond what was asked for), "planned" (what the block that later runs take for all values is larger than
            what is in use at once), "shared" (below 0: buffers that two values share), "session" (what the allocator
            held before the run: packed weights), "inputs", "weights" (as stored), "libraries" (the process before the
            session: interpreter, ONNX Runtime's code), "runtime" (all else of the process: ONNX Runtime itself, copies
            of weights while it loads, the profiler).
        name: The node that made a value.
        bytes: What it holds.
        count: How many values it stands for.
    """

    kind: MemoryKind
    name: str = ""
    bytes: int
    count: int = 1


class MemoryProfile(Record, frozen=True, kw_only=True):
    """Memory over the nodes of one run.

    Attributes:
        source: "profile" (the allocator's own figures) or "liveness" (from sizes and last uses).
        run: Which one, from 0: a steady one, or the first with its shapes where later ones take one planned block, of
            which no node shows; None for "liveness".
        peak_bytes: Most that the allocator has in use at once, in this run or another with the same shapes.
        peak_node: While which node of this run most is in use.
        held_bytes: Most that the arena held in any run.
        at_peak: Values or nodes that hold memory at the peak, the largest first, at most ten.
        weights_bytes: Of the parameters that the nodes read.
        owners: All that is taken at the peak, the largest first.
        total_bytes: Their sum: what the allocator has in use, and beside it the weights, the inputs, and the process as
            far as that was watched.
        n_unknown: Values of unknown size, which are not counted.
        resident_bytes: Most that the process had resident; None where it was not watched.
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
