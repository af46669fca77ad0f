"""A soak in a process: it calls a model for a long time, and reports its memory after each turn."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune.records import (
    Applied,
    Failed,
    Finish,
    FreshInput,
    NodeMemory,
    PlaySoakRequest,
    Runtime,
    SoakDone,
    SoakPoint,
    SoakRequest,
    SoakTurn,
    TimeSource,
    TrialRequest,
)
from ortune.targets.machine import Machine
from ortune.targets.process import ProcessRunner
from ortune.targets.task import Limits, TrialTask
from ortune.targets.worker import Worker

_COUNTER = "<QQ"
_COUNTER_FILE = "counter"
_NODES_FILE = "nodes.csv"
_NODES_KEY = "session.collect_node_memory_stats_to_file"
"""Session option, available from ONNX Runtime 1.31 on, that names a file with a line for each node: its name, and the
bytes of inputs, initializers, outputs and temporaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakTask:
    """Task of a soak process.

    Attributes:
        task: The trial to run.
        fresh: Inputs with new values in each call.
        seed: Seed for the order of input sizes and for the input values.
        recreate: Number of calls after which sessions are recreated; 0 for never.
        trim: Whether the allocator's free pages are returned after each turn.
        nodes: Whether ONNX Runtime records the memory of each node.
    """

    task: TrialTask
    fresh: tuple[FreshInput, ...]
    seed: int
    recreate: int = 0
    trim: bool = False
    nodes: bool = False


class Soaking(ProcessRunner):
    """A soak process, from its start to its last message.

    Attributes:
        points: Memory of the process after each turn so far.
        done: The last message of the process; None before it, and if the process failed.
    """

    def __init__(
        self, wanted: SoakTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Soaking]
    ) -> None:
        super().__init__(wanted.task, settings, machine, group)
        self.wanted = wanted
        self.points: list[SoakPoint] = []
        self.done: SoakDone | None = None

    def open(self, settings: tuple[Applied, ...], arguments: Sequence[str] = ()) -> None:
        """Start the process of the soak."""
        super().open(settings, ("soak", *arguments))

    def request(self, settings: tuple[Applied, ...]) -> TrialRequest | TimeSource | SoakRequest:
        """Return the first request to the process."""
        trial = super().request(settings)
        assert isinstance(trial, TrialRequest)
        wanted = self.wanted
        if wanted.nodes:
            place = str((self.folder / _NODES_FILE).absolute())
            asked = Applied(knob="", channel="session_config", key=_NODES_KEY, value=place)
            trial = msgspec.structs.replace(trial, applied=(*trial.applied, asked))
        return SoakRequest(
            trial=trial,
            fresh=wanted.fresh,
            seed=wanted.seed,
            recreate=wanted.recreate,
            trim=wanted.trim,
            counter=str((self.folder / _COUNTER_FILE).absolute()),
        )

    def turn(self, calls: int, starts_ns: tuple[int, ...] = ()) -> None:
        """Make a number of calls as one turn, and record the memory after them."""
        self._turn(SoakTurn(calls=calls, starts_ns=starts_ns), SoakPoint)
        if self.live and isinstance(self.answer, SoakPoint):
            self.points.append(self.answer)

    def conclude(self) -> None:
        """Get the final report of the process, and let it end."""
        self._turn(Finish(), SoakDone)
        if isinstance(self.end, SoakDone):
            self.done = self.end

    @property
    def counted(self) -> tuple[int, int] | None:
        """Number of calls and index of the last call's size, even after the process was killed; None without calls."""
        path = self.folder / _COUNTER_FILE
        data = path.read_bytes() if path.is_file() else b""
        if len(data) != struct.calcsize(_COUNTER):
            return None
        calls, case = struct.unpack(_COUNTER, data)
        return (calls, case) if calls else None

    @property
    def nodes(self) -> tuple[NodeMemory, ...]:
        """The memory of each node, largest first; () if this release of ONNX Runtime does not record it."""
        path = self.folder / _NODES_FILE
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        found = []
        for line in lines:
            name, *sizes = line.rsplit(",", 4)
            if not line.startswith("#") and len(sizes) == 4 and all(size.isdigit() for size in sizes):
                _, weights, outputs, temporary = map(int, sizes)
                found.append(
                    NodeMemory(
                        name=name,
                        output_bytes=outputs,
                        temporary_bytes=temporary,
                        initializer_bytes=weights,
                    )
                )
        return tuple(sorted(found, key=lambda node: -node.output_bytes - node.temporary_bytes))

    @property
    def failure(self) -> Failed | None:
        """Failure of the process, which has ended; None if it succeeded."""
        return self.failed(self.done.read_back if self.done is not None else ())


class SoakingPlayer(Worker):
    """One process of a recorded application, which plays its steps repeatedly.

    Attributes:
        points: Memory of the process after each turn so far.
    """

    def __init__(self, runtime: Runtime, folder: Path, scratch: Path, limits: Limits) -> None:
        super().__init__(runtime, folder, scratch, limits)
        self.points: list[SoakPoint] = []

    def begin(self, variables: tuple[Applied, ...], request: PlaySoakRequest) -> None:
        """Start the process and send the request."""
        self.open(variables, ("play-soak",))
        if self.live:
            self.send(request)

    def turn(self, rounds: int) -> None:
        """Play all steps a number of times as one turn, and record the memory after that."""
        if not self.live:
            return
        self.send(SoakTurn(calls=rounds))
        if self.follow(SoakPoint) and isinstance(self.answer, SoakPoint):
            self.points.append(self.answer)

    def conclude(self) -> None:
        """Get the final report of the process, and let it end."""
        if self.live:
            self.send(Finish())
            self.follow(SoakDone)
