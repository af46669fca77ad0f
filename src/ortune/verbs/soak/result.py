"""Result of ``ortune soak``: memory over time, its growth, and the causes."""

from __future__ import annotations

from typing import Literal

from ortune.records import Failed, Finding, GrowthFigure, NodeMemory, Side, SoakDone, SoakExperiment
from ortune.records.base import Record

SoakVerdict = Literal["flat", "bounded", "growing", "fragmented", "killed", "undecided"]


class LimitForecast(Record, frozen=True, kw_only=True):
    """Forecast of when memory passes a limit, assuming that growth and call rate stay as in this soak.

    Attributes:
        after_s: Seconds until then.
        low_s, high_s: 95 % interval of ``after_s``; None if unbounded.
    """

    limit_bytes: int
    after_s: float
    low_s: float | None = None
    high_s: float | None = None


class SizeRow(Record, frozen=True, kw_only=True):
    """Calls and memory growth at one size of the workload.

    Attributes:
        size: The size, as text.
        calls: Calls of this size in all processes.
        raised_bytes: Increase of the highest memory level by its calls, median over processes.
        last_step_call: Number of the last call in a process that increased it.
    """

    size: str
    calls: int
    raised_bytes: float = 0.0
    last_step_call: int = 0


class SoakKill(Record, frozen=True, kw_only=True):
    """The end of a process that took too much memory.

    Attributes:
        limit_bytes: The limit; None if it is the machine's.
        calls: Calls until then, the last one included; 0 if it was not called.
        size: The size of the last call.
        what: The reason in words.
    """

    limit_bytes: int | None = None
    calls: int = 0
    size: str = ""
    what: str = ""


class SoakProcess(Record, frozen=True, kw_only=True):
    """Outcome of one process of a soak.

    Attributes:
        arm: The variation that it ran, with its number: "as-is-1".
        done: The measurements of a completed process; None if it failed or was killed.
        failure: Reason that the process ended early; None if it completed.
    """

    arm: str
    done: SoakDone | None = None
    failure: Failed | None = None


class PointRow(Record, frozen=True, kw_only=True):
    """The memory of one process after a turn.

    Attributes:
        arm: The variation that it runs: "as-is-1".
        calls: Calls made so far.
        sessions: Number of sessions created so far; the sessions of ``--sessions`` count as one.
        active_ns: Time in turns so far.
        latency_ns: Median latency of the turn's calls; 0 without calls.
        held_bytes: Memory of the process and its children, including swapped but not file-backed memory; for a page,
            the sum of the page's parts.
        children_bytes: Part of ``held_bytes`` that belongs to the children.
        resident_bytes: Resident memory of the process, including file-backed memory; for a page, of the whole browser.
        used_bytes: Memory in use according to the allocator; None if the allocator does not report it.
        group_bytes: Memory of the control group, including all other processes in the group; ``group_cache_bytes`` is
            the part of it that is file cache. None without a control group.
        heap_bytes, wasm_bytes, gpu_bytes, gpu_buffers: Parts of a page's memory: JavaScript heap after garbage
            collection, WebAssembly memory, GPU buffers and their number. None for a process.
    """

    arm: str
    calls: int
    sessions: int
    active_ns: int
    latency_ns: int
    held_bytes: int
    children_bytes: int = 0
    resident_bytes: int | None = None
    used_bytes: int | None = None
    group_bytes: int | None = None
    group_cache_bytes: int | None = None
    heap_bytes: int | None = None
    wasm_bytes: int | None = None
    gpu_bytes: int | None = None
    gpu_buffers: int | None = None


class AppProcessRow(Record, frozen=True, kw_only=True):
    """One process of a recorded application; sizes are medians over its copies.

    Attributes:
        process: Number of the process in the recording, from 1.
        copies: Number of processes that replayed it.
        calls: Minimum number of calls of a copy; ``sessions`` is the maximum number of sessions that a copy created.
        first_bytes, held_bytes, returned_bytes, released_bytes, growth, forecast, sizes: As in ``SoakResult``.
    """

    process: int
    copies: int
    verdict: SoakVerdict
    calls: int
    sessions: int
    calls_per_s: float
    first_bytes: float
    held_bytes: float
    returned_bytes: float | None = None
    released_bytes: float | None = None
    raised_by: str = ""
    growth: GrowthFigure | None = None
    forecast: LimitForecast | None = None
    enough_budget_s: float | None = None
    sizes: tuple[SizeRow, ...] = ()


class PlayedSoak(Record, frozen=True, kw_only=True):
    """A recorded application that was soaked.

    Attributes:
        rounds: Number of times that each process replayed its steps.
        calls, of_calls: Number of calls in a round, and of recorded calls.
    """

    rounds: int
    calls: int
    of_calls: int
    processes: tuple[AppProcessRow, ...]


class SoakResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune soak --json``; sizes are medians over processes.

    Attributes:
        calls: Number of calls of the process with the fewest calls.
        calls_per_s: Rate of the calls.
        first_bytes: Memory after the first call.
        held_bytes: Memory at the end.
        children_bytes: Part of ``held_bytes`` that belongs to child processes.
        returned_bytes: Bytes that ``malloc_trim`` returned at the end; None if the allocator has no such function.
        base_bytes: Memory before the sessions were created; ``released_bytes`` after they were deleted.
        raised_by: The size that added the most memory; "" if no size added memory.
        enough_budget_s: A budget that would be enough for a verdict; None if there is a verdict.
        fresh: Inputs with new values in each call, except for the inputs in ``fixed``: the model rejects other values.
        load: Sentence on the timing of calls.
        application: Processes of a recorded application; None for a model. The other figures are those of the process
            with the worst verdict, and ``side`` is the first model under the name of the recording.
        nodes: The nodes that allocate most, if memory rises; () if this release of ONNX Runtime does not record it.
        failed: Whether the verdict is one of ``--fail-on``.
        experiments: Changes that were soaked next to the unchanged model because memory rises.
    """

    side: Side
    verdict: SoakVerdict
    calls: int
    calls_per_s: float
    first_bytes: float
    held_bytes: float
    children_bytes: float = 0.0
    returned_bytes: float | None = None
    base_bytes: float | None = None
    released_bytes: float | None = None
    raised_by: str = ""
    growth: GrowthFigure | None = None
    forecast: LimitForecast | None = None
    killed: SoakKill | None = None
    enough_budget_s: float | None = None
    sizes: tuple[SizeRow, ...] = ()
    fresh: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    recreate: int = 0
    load: str = ""
    application: PlayedSoak | None = None
    nodes: tuple[NodeMemory, ...] = ()
    failed: bool = False
    experiments: tuple[SoakExperiment, ...] = ()
    findings: tuple[Finding, ...] = ()
    processes: tuple[SoakProcess, ...] = ()
    points: tuple[PointRow, ...] = ()
    notes: tuple[str, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
