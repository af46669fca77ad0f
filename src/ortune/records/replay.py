"""Replay of the recorded calls of an application: messages to its processes, and results."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.plan import ProviderSpec
from ortune.records.protocol import Applied, TrialError


class PlayedSession(Record, frozen=True, kw_only=True):
    """A session that a process creates.

    Attributes:
        model: Path of its model.
        shared: Key of shared sessions: those of a process with the same key are one session; "" if it is not shared.
        before: Whether it is created before the replay starts, like a session from before a fork.
    """

    model: str
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    shared: str = ""
    before: bool = False


class PlayedStep(Record, frozen=True, kw_only=True, array_like=True):
    """One step of a thread: creating, calling or releasing a session.

    Attributes:
        thread: Number of the thread in its process.
        session: Index of the session.
        feed: Index of the inputs of a call; -1 for other steps.
        at_ns: Start of the step, from the end of the thread's previous step. For the first step of a thread, and with
            ``PlayRequest.open_loop``, from the start of the replay.
    """

    thread: int
    do: Literal["create", "call", "close"]
    session: int
    feed: int = -1
    at_ns: int = 0


class PlayedFeed(Record, frozen=True, kw_only=True):
    """Inputs of calls, and the form in which they are passed.

    Attributes:
        path: Folder of their files; "" for inputs without a played call.
        lists: Names of inputs that are passed as Python lists.
        strided: Whether arrays are passed as views that are not contiguous.
        batch: Number of repetitions of each input along its first dimension.
    """

    path: str = ""
    lists: tuple[str, ...] = ()
    strided: bool = False
    batch: int = 1


class PlayRequest(Record, frozen=True, kw_only=True):
    """Request to a process that replays calls, the first line on its stdin.

    Attributes:
        open_loop: Whether steps start at their times even if earlier steps take long. Sessions from before are then
            called once with each of their inputs before the replay.
        outputs_path: Folder for the outputs of the first call with each of the inputs; "" keeps none.
    """

    version: int = PROTOCOL_VERSION
    sessions: tuple[PlayedSession, ...]
    feeds: tuple[PlayedFeed, ...]
    steps: tuple[PlayedStep, ...]
    applied: tuple[Applied, ...] = ()
    seed: int = 0
    open_loop: bool = False
    outputs_path: str = ""


class PlayDone(Record, frozen=True, kw_only=True, tag="play-done", tag_field="message"):
    """The measurements of one process of a replay.

    Attributes:
        took_ns: Time of each step, in the order of the request.
        waited_ns: With ``open_loop``, time that each step waited for the previous one in its thread or for its session.
        late_ns: Delay of each step's start although its thread was free and its session existed.
        wall_ns, cpu_ns: Wall time and CPU time from the start to the end of the last step.
        own_cpu_ns: CPU time of its threads outside of the steps.
        peak_bytes: Largest resident memory; None if the system does not report it.
        base_bytes: Resident memory before the first session; None if the system does not report it.
        most_threads: Largest number of threads after a step; None if the system does not report it.
    """

    took_ns: tuple[int, ...]
    waited_ns: tuple[int, ...]
    late_ns: tuple[int, ...]
    wall_ns: int
    cpu_ns: int
    own_cpu_ns: int
    peak_bytes: int | None = None
    base_bytes: int | None = None
    most_threads: int | None = None
    ort_version: str = ""


class AppPlay(Record, frozen=True, kw_only=True):
    """One play of an application, over all its processes.

    Attributes:
        variant: Name of the variant; "recorded" without a change.
        wall_ns: From the start to the end of the last process.
        in_ort_ns: Time inside ONNX Runtime, summed over threads: creating sessions, calling and releasing them.
        creating_ns: The part of ``in_ort_ns`` for creating sessions.
        cpu_ns: CPU time of all processes.
        own_cpu_ns: The part of ``cpu_ns`` outside of ONNX Runtime, for the replay itself.
        late_ns: Mean delay of the start of a step.
        peak_bytes: Sum of the processes' largest resident memory; None if the system does not report it.
        most_threads: Sum of the processes' largest numbers of threads; None if the system does not report it.
        latency_ns: Sum of the latencies of calls at given times, from their intended starts; None for others.
        late_share: Mean delay of these calls by the generator, as a fraction of their mean latency.
        offered_share: Time that their rate requires of the busiest thread, as a fraction of its time.
    """

    variant: str
    wall_ns: int
    in_ort_ns: int
    creating_ns: int
    cpu_ns: int
    own_cpu_ns: int = 0
    late_ns: float = 0.0
    peak_bytes: int | None = None
    most_threads: int | None = None
    latency_ns: int | None = None
    late_share: float | None = None
    offered_share: float | None = None


class AppPlayed(Record, frozen=True, kw_only=True):
    """One play in the journal of a search: its measurements or its error.

    Attributes:
        used_cpus: CPUs that other programs used during the play; None if unknown.
    """

    play: AppPlay | None = None
    error: TrialError | None = None
    used_cpus: float | None = None


ReplayedKind = Literal["pool", "spinning", "arena", "patterns", "lists", "strides", "batches"]


class AppRatio(Record, frozen=True, kw_only=True):
    """A ratio to the base over the same blocks, with its 95 % interval; a ratio below 1 means less time.

    Attributes:
        low, high: The interval; None with too few blocks.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n_blocks: int = 0


class ReplayedGain(Record, frozen=True, kw_only=True):
    """The gain of a change in a replay of the recorded calls, as ratios to the recorded use: below 1 is less.

    Attributes:
        change: The setting as ``name=value``; "" if the change is another form of the inputs.
        cpu, wall: Ratios of CPU time and of the time in ONNX Runtime, each with its interval.
        n_blocks: Number of blocks.
        others: Changes that were measured together with it.
    """

    kind: ReplayedKind
    change: str = ""
    cpu: tuple[float, float, float]
    wall: tuple[float, float, float]
    n_blocks: int
    others: tuple[str, ...] = ()
