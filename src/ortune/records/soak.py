"""Messages to processes of a soak, and the results on their memory."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.plan import Plan
from ortune.records.protocol import ReadBack, TrialRequest
from ortune.records.replay import PlayRequest


class FreshInput(Record, frozen=True, kw_only=True):
    """An input that has new values in each call.

    Attributes:
        kind: "floats": the values rotated and scaled; "integers": drawn between ``low`` and ``high``, or the values
            rotated if these are unknown; "text": the texts with a number.
        low, high: Range of integers; None if unknown.
    """

    name: str
    kind: Literal["floats", "integers", "text"]
    low: int | None = None
    high: int | None = None


class SoakRequest(Record, frozen=True, kw_only=True):
    """Request to a soaked process, the first line on its stdin.

    Attributes:
        trial: Model, settings and base inputs, as of a trial.
        fresh: Inputs with new values in each call; all others keep theirs.
        seed: Seed of the order of sizes and of the values.
        recreate: Number of calls after which the sessions are deleted and created again; 0 keeps them.
        trim: Whether to return free pages of the allocator to the system after each turn.
        counter: File with the number of calls and the size of the last one, which remains if the process is killed.
    """

    version: int = PROTOCOL_VERSION
    trial: TrialRequest
    fresh: tuple[FreshInput, ...] = ()
    seed: int = 0
    recreate: int = 0
    trim: bool = False
    counter: str = ""


class PlaySoakRequest(Record, frozen=True, kw_only=True):
    """Request to a soaked process of a recorded application, the first line on its stdin.

    Attributes:
        play: Its sessions, inputs and steps, without the times between them.
        fresh: Inputs with new values in each call, for each entry of ``play.feeds``.
        seed: Seed of the values.
        trim: Whether to return free pages of the allocator to the system after each turn.
    """

    version: int = PROTOCOL_VERSION
    play: PlayRequest
    fresh: tuple[tuple[FreshInput, ...], ...] = ()
    seed: int = 0
    trim: bool = False


class SoakTurn(Record, frozen=True, kw_only=True, tag="soak", tag_field="do"):
    """Command to a soaked process: make calls; the answer is ``soak-point``.

    Attributes:
        calls: Number of calls; for a recorded application, number of times that all steps are played.
        starts_ns: Start times of the calls; () if each caller starts a call when its previous call has ended.
    """

    calls: int
    starts_ns: tuple[int, ...] = ()


class NodeMemory(Record, frozen=True, kw_only=True):
    """The largest memory of one node over all calls, as recorded by ONNX Runtime.

    Attributes:
        name: Name in the optimised graph.
        output_bytes: Size of its outputs that have separate memory.
        temporary_bytes: Temporary memory of its kernel.
        initializer_bytes: Size of its weights.
    """

    name: str
    output_bytes: int
    temporary_bytes: int
    initializer_bytes: int


class SoakPoint(Record, frozen=True, kw_only=True, tag="soak-point", tag_field="message"):
    """Memory between two turns.

    Attributes:
        calls: Number of calls made so far.
        sessions: Number of sessions created so far; a set of ``--sessions`` counts once.
        active_ns: Time in turns so far.
        latency_ns: Median of the turn; 0 without calls.
        held_bytes: Memory of the process and its children without file-backed pages, swapped pages included; None if
            the system does not report it.
        children_bytes: The part of ``held_bytes`` that belongs to child processes.
        resident_bytes: Resident memory of the process, file-backed pages included.
        used_bytes: Memory in use according to the allocator; None if it does not report it.
        group_bytes: Memory of its control group; ``group_cache_bytes`` is the part that is file cache.
        heap_bytes, wasm_bytes, gpu_bytes: The parts of a page's memory: JavaScript's heap without garbage, WebAssembly
            memory, and GPU buffers, whose number is ``gpu_buffers``; None for a process.
    """

    calls: int
    sessions: int = 1
    active_ns: int = 0
    latency_ns: int = 0
    held_bytes: int | None
    children_bytes: int = 0
    resident_bytes: int | None = None
    used_bytes: int | None = None
    group_bytes: int | None = None
    group_cache_bytes: int | None = None
    heap_bytes: int | None = None
    wasm_bytes: int | None = None
    gpu_bytes: int | None = None
    gpu_buffers: int | None = None


class SizeStep(Record, frozen=True, kw_only=True):
    """The increase of a process's highest memory level by the calls of one size.

    Attributes:
        case: Index of the size.
        calls: Number of calls with it.
        first_call: Number of its first call in the process.
        last_step_call: Number of its last call that raised the level.
        bytes: Sum of the increases.
    """

    case: int
    calls: int
    first_call: int
    last_step_call: int
    bytes: int


class SoakDone(Record, frozen=True, kw_only=True, tag="soak-done", tag_field="message"):
    """The end of a soaked process.

    Attributes:
        base_bytes: Memory before the sessions were created.
        idle_bytes: Memory after the last call.
        trimmed_bytes: Memory after the allocator returned its free pages as well; None if it cannot return any.
        released_bytes: Memory after the sessions were deleted and free pages returned; None if they were not deleted.
        peak_bytes: Peak of resident memory.
        steps: Memory that each size added; () if the system does not report it for each call.
        fixed: Inputs that keep their values because the model does not run with others.
    """

    base_bytes: int | None = None
    idle_bytes: int | None = None
    trimmed_bytes: int | None = None
    released_bytes: int | None = None
    peak_bytes: int | None = None
    steps: tuple[SizeStep, ...] = ()
    fixed: tuple[str, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    ort_version: str = ""


SoakChange = Literal[
    "as-is", "same-values", "one-size", "kept-sessions", "no-arena", "exact-arena", "arena-shrinkage", "no-pattern",
    "no-kleidiai", "no-prepacking", "one-thread", "trim", "allocator",
]  # fmt: skip
"""Change of a process in a soak's experiments; "as-is" for none."""


class SoakExperiment(Record, frozen=True, kw_only=True):
    """One change, soaked next to the unchanged model with the same calls.

    Attributes:
        change: Name of the change.
        plan: The change as settings; None if it is not a setting.
        calls: Number of calls of the process.
        rise_bytes: Rise of the memory: after the first calls if memory grows, otherwise from the unchanged model's
            first call on.
        as_is_rise_bytes: Rise of the memory of the unchanged model.
        explained: Fraction of the unchanged model's rise that the change removes; below 0 if the change adds to it.
        flattens: Whether the change removes most of the rise, so it shows a cause.
        latency_ratio: Latency of a call with the change divided by the latency without it; None if unknown.
        latency_low, latency_high: 95 % interval of ``latency_ratio``, over turns of this one process.
        failed: Why the process failed; "" if it did not.
    """

    change: SoakChange
    plan: Plan | None = None
    calls: int = 0
    rise_bytes: float = 0.0
    as_is_rise_bytes: float = 0.0
    explained: float = 0.0
    flattens: bool = False
    latency_ratio: float | None = None
    latency_low: float | None = None
    latency_high: float | None = None
    failed: str = ""


class GrowthFigure(Record, frozen=True, kw_only=True):
    """The growth of memory after the first calls, in bytes.

    Attributes:
        of: "held": memory of the processes and their children; "used": memory in use in their allocators.
        per_1000_calls: Growth; ``low`` and ``high`` are the ends of its 95 % interval, None if unbounded.
        per_session: Growth for each created set of sessions; None if sessions are kept.
        p: Probability of changes as large if memory only fluctuates without a trend.
        n_changes: Number of changes between successive blocks of calls, over all processes.
        from_call: Number of the call after which growth is measured.
        why: Why the verdict is undecided: "few-calls", "steps", "slowing" or "noise"; "" if it is decided.
    """

    of: Literal["held", "used"]
    per_1000_calls: float
    low: float | None = None
    high: float | None = None
    per_session: float | None = None
    p: float = 1.0
    n_changes: int = 0
    from_call: float = 0.0
    why: str = ""
