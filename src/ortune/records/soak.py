"""A process that calls a model for long, and its memory meanwhile."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.plan import Plan
from ortune.records.protocol import ReadBack, TrialRequest
from ortune.records.replay import PlayRequest


class FreshInput(Record, frozen=True, kw_only=True):
    """An input that has new values in each call.

    Attributes:
        kind: "floats": the values in another place, scaled; "integers": drawn between ``low`` and ``high``, or the
            values in another place if these are not known; "text": the texts with a number.
    """

    name: str
    kind: Literal["floats", "integers", "text"]
    low: int | None = None
    high: int | None = None


class SoakRequest(Record, frozen=True, kw_only=True):
    """To a process that is soaked, as the first line on its stdin.

    Attributes:
        trial: Model, settings and base inputs, as of a trial.
        fresh: Inputs with new values in each call; all others keep theirs.
        seed: Of the order of sizes and of the values.
        recreate: Calls after which the sessions are deleted and created again; 0 keeps them.
        trim: Return free pages of the allocator to the system after each turn.
        counter: A file that always has the number of calls and the size of the last one; also when the process is
            killed.
    """

    version: int = PROTOCOL_VERSION
    trial: TrialRequest
    fresh: tuple[FreshInput, ...] = ()
    seed: int = 0
    recreate: int = 0
    trim: bool = False
    counter: str = ""


class PlaySoakRequest(Record, frozen=True, kw_only=True):
    """To a process of a recorded application that is soaked, as the first line on its stdin.

    Attributes:
        play: Its sessions, inputs and steps, without the times between them.
        fresh: Inputs with new values in each call, for each entry of ``play.feeds``.
        seed: Of the values.
        trim: Return free pages of the allocator to the system after each turn.
    """

    version: int = PROTOCOL_VERSION
    play: PlayRequest
    fresh: tuple[tuple[FreshInput, ...], ...] = ()
    seed: int = 0
    trim: bool = False


class SoakTurn(Record, frozen=True, kw_only=True, tag="soak", tag_field="do"):
    """To a process that is soaked: make calls; it answers ``soak-point``.

    Attributes:
        calls: Number of calls, or of a recorded application the number of times that all steps are played.
        starts_ns: When they start; () if each caller starts the next call after the last one.
    """

    calls: int
    starts_ns: tuple[int, ...] = ()


class NodeMemory(Record, frozen=True, kw_only=True):
    """The largest memory of one node over all calls, as ONNX Runtime has recorded it.

    Attributes:
        name: Of the optimised graph.
        output_bytes: Its outputs, as far as they have memory of their own.
        temporary_bytes: What its kernel needs while it runs.
        initializer_bytes: Its weights.
    """

    name: str
    output_bytes: int
    temporary_bytes: int
    initializer_bytes: int


class SoakPoint(Record, frozen=True, kw_only=True, tag="soak-point", tag_field="message"):
    """Memory between two turns.

    Attributes:
        calls: Calls made so far.
        sessions: Sessions created so far, each set of ``--sessions`` once.
        active_ns: Time in turns so far.
        latency_ns: Median of the turn; 0 without calls.
        held_bytes: Memory of the process and its children that is no page of a file, swapped pages included.
        children_bytes: The part of its children.
        resident_bytes: Resident memory of the process, pages of files included.
        used_bytes: What the allocator says is in use; None if it does not tell.
        group_bytes: Memory of its control group; ``group_cache_bytes`` is cache of files.
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


class SizeStep(Record, frozen=True, kw_only=True):
    """The memory to which one size has raised the highest level of a process.

    Attributes:
        case: Index of the size.
        calls: Calls with it.
        first_call: Its first one.
        last_step_call: Its last call that raised the level.
        bytes: The sum of its steps.
    """

    case: int
    calls: int
    first_call: int
    last_step_call: int
    bytes: int


class SoakDone(Record, frozen=True, kw_only=True, tag="soak-done", tag_field="message"):
    """The end of a process that was soaked.

    Attributes:
        base_bytes: Held before the sessions were created.
        idle_bytes: Held after the last call.
        trimmed_bytes: The same after the allocator has returned its free pages; None if it cannot.
        released_bytes: Held after the sessions were deleted, and free pages returned; None if they were not deleted.
        peak_bytes: High-water mark of resident memory.
        steps: What each size has added; () if the system does not tell it call by call.
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
"""What a process of a soak's experiments does differently; "as-is" is nothing."""


class SoakExperiment(Record, frozen=True, kw_only=True):
    """One change, soaked next to the unchanged model with the same calls.

    Attributes:
        change: What is different.
        plan: The change as settings; None if it is no setting.
        calls: Calls of the process.
        rise_bytes: What memory rose by: of memory that grows, after the first calls; of other memory, from the
            unchanged model's first call on.
        as_is_rise_bytes: The same of the unchanged model.
        explained: Share of that rise which the change removes; below 0 if it adds to it.
        flattens: Whether the change is a cause: it removes most of the rise.
        latency_ratio: Latency of a call with the change over without; None if unknown.
        latency_low, latency_high: Its interval of 95 % over turns of this one process.
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
    """How memory changes after the first calls, bytes.

    Attributes:
        of: "held": memory of the processes and their children; "used": what their allocators have in use.
        per_1000_calls: Growth; ``low`` and ``high`` are its interval of 95 %, None if nothing bounds it.
        per_session: The same for each set of sessions created; None if sessions are kept.
        p: Chance of changes as large if memory only wanders.
        n_changes: Changes from block to block of calls, of all processes.
        from_call: Calls up to this one are the first ones.
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
