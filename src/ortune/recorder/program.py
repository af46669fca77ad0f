"""Runs a program with the recorder, and collects the recording."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ortune import launcher, temporary
from ortune.platform import cgroup
from ortune.platform.reading import read_text
from ortune.recorder import doors, hook, values
from ortune.recorder.digests import Digests
from ortune.recorder.following import SIGNALLED, follow, require_proc
from ortune.recorder.read import read
from ortune.records import Recording


def record(
    command: Sequence[str], *, duration_s: float = math.inf, with_inputs: int = 0, given: Mapping[str, str]
) -> Recording:
    """Run a program to its end, and return the recording of its use of ONNX Runtime.

    Args:
        command: Program and arguments.
        duration_s: Seconds after which the program is requested to end.
        with_inputs: Number of calls whose inputs are stored, per call site and combination of shapes; 0 stores none.
        given: The environment without the recorder.

    Raises:
        UsageError: This system lacks /proc, or the program cannot be started.
    """
    require_proc()
    with temporary.folder() as scratch:
        folder = scratch / "recording"
        folder.mkdir(mode=0o700)
        door = doors.prepare(scratch)
        busy, at, digests = _cpu_ticks(), datetime.now(UTC), Digests()
        environment = doors.environment(folder, door, given)
        if with_inputs:
            environment[hook.VALUES] = str(with_inputs)
        ended = follow(
            command,
            environment,
            folder,
            door,
            limit_s=duration_s,
            also=lambda: digests.follow(folder),
        )
        watch = ended.watch
        cpu_ns = {process.pid: process.cpu_ns for process in watch.seen.values() if process.cpu_ns}
        recorded = read(folder, ended.start_ns, digests, cpu_ns)
        inputs = values.inputs_of(folder, recorded.models, with_inputs) if with_inputs else ()
        return Recording(
            command=tuple(command),
            at=at.isoformat(timespec="seconds"),
            elapsed_ns=ended.elapsed_ns,
            ended_by="duration"
            if ended.late
            else launcher.signal_name(ended.status) or ended.interrupted or "program",
            code=ended.code,
            seen=len({watch.root, *(pid for pid, _ in watch.seen), *recorded.homes}),
            cpu_ns=ended.cpu_ns,
            cpu_quota=cgroup.cpu_quota(cgroup.groups_once()),
            logical_cpus=os.cpu_count() or 1,
            busy_ratio=_busy(busy, _cpu_ticks()),
            processes=tuple(recorded.processes),
            sessions=tuple(recorded.sessions),
            models=tuple(recorded.models),
            places=tuple(recorded.places),
            missed=watch.missed(recorded.homes),
            values=inputs,
        )


def exit_code(recording: Recording) -> int:
    """Return the program's exit code, or 3 if it succeeded but a process was not recorded."""
    code = recording.code
    if recording.ended_by == "duration" and code == SIGNALLED + signal.SIGTERM:
        code = 0  # as requested
    return 3 if code == 0 and recording.missed else code


def _cpu_ticks() -> tuple[int, int]:
    """Return the busy ticks and the total ticks of all CPUs since the machine started; (0, 0) if unknown."""
    fields = [int(word) for word in (read_text(Path("/proc/stat")) or "").partition("\n")[0].split()[1:9]]
    if len(fields) < 5:
        return 0, 0
    return sum(fields) - fields[3] - fields[4], sum(fields)


def _busy(before: tuple[int, int], after: tuple[int, int]) -> float | None:
    total = after[1] - before[1]
    return (after[0] - before[0]) / total if total > 0 else None
