"""Playing the recorded calls of an application again: messages to its processes, and what became of it."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.plan import ProviderSpec
from ortune.records.protocol import Applied, TrialError


class PlayedSession(Record, frozen=True, kw_only=True):
    """A session that a process creates.

    Attributes:
        model: Path of its model.
        shared: Sessions of a process with the same text here are one session; "" for one of its own.
        before: Whether it exists when the process begins to play, as one from before a fork.
    """

    model: str
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    shared: str = ""
    before: bool = False


class PlayedStep(Record, frozen=True, kw_only=True, array_like=True):
    """One thing that a thread does: creating, calling or releasing a session.

    Attributes:
        thread: Number of the thread in its process.
        session: Index of the session.
        feed: Index of the inputs of a call; -1 for other steps.
        at_ns: When it starts: after the end of the thread's step before, or with ``PlayRequest.open_loop``, and for
            the first step of a thread, after the start.
    """

    thread: int
    do: Literal["create", "call", "close"]
    session: int
    feed: int = -1
    at_ns: int = 0


class PlayedFeed(Record, frozen=True, kw_only=True):
    """Inputs of calls, and the form in which they are passed.

    Attributes:
        path: Folder of their files; "" for inputs of which no call is played.
        lists: Names of inputs that are passed as Python lists.
        strided: Whether arrays are passed that are not contiguous.
        batch: How many times each input is repeated along its first dimension.
    """

    path: str = ""
    lists: tuple[str, ...] = ()
    strided: bool = False
    batch: int = 1


class PlayRequest(Record, frozen=True, kw_only=True):
    """What a process plays, as the first line on its stdin.

    Attributes:
        open_loop: Whether steps start at their times, however long those before them take.
        outputs_path: Where to leave the outputs of the first call with each of the inputs; "" keeps none.
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
    """What one process did.

    Attributes:
        took_ns: Time of each step, in the order of the request.
        waited_ns: With ``open_loop``, for how long each step waited for the one before it in its thread.
        late_ns: How late each step started, although its thread was free and its session existed.
        wall_ns, cpu_ns: From the start to the end of the last step.
        own_cpu_ns: CPU time of its threads outside of the steps.
        peak_bytes: Largest resident memory; None if the system does not tell.
        base_bytes: Resident memory before the first session.
        most_threads: Largest number of threads after a step; None if the system does not tell.
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
    """An application played once, all of its processes together.

    Attributes:
        variant: What was changed: "recorded" is nothing.
        wall_ns: From the start to the end of the last process.
        in_ort_ns: Time inside ONNX Runtime, summed over threads: creating sessions, calling and releasing them.
        creating_ns: The part of it for creating sessions.
        cpu_ns: CPU time of all processes.
        own_cpu_ns: The part of it outside of ONNX Runtime, for the replay itself.
        late_ns: Mean time by which a step started late.
        peak_bytes: Sum of the processes' largest resident memory; None if the system does not tell.
        most_threads: Sum of the processes' largest numbers of threads; None if the system does not tell.
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


class AppPlayed(Record, frozen=True, kw_only=True):
    """One play as the journal of a search has it: what it took, or why it failed.

    Attributes:
        used_cpus: CPUs that other programs used meanwhile; None if the system does not tell.
    """

    play: AppPlay | None = None
    error: TrialError | None = None
    used_cpus: float | None = None


ReplayedKind = Literal["pool", "spinning", "arena", "patterns", "lists", "strides", "batches"]


class ReplayedGain(Record, frozen=True, kw_only=True):
    """What a change gained when the recorded calls were played: ratios to the recorded use, below 1 is less.

    Attributes:
        change: The setting as ``name=value``; "" for another form of inputs.
        cpu, wall: Ratios of CPU time and of the time in ONNX Runtime, each with its interval.
        n_blocks: Blocks that they are of.
        others: Changes that were measured together with it.
    """

    kind: ReplayedKind
    change: str = ""
    cpu: tuple[float, float, float]
    wall: tuple[float, float, float]
    n_blocks: int
    others: tuple[str, ...] = ()
