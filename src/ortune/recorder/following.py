"""Runs a program to its end, and observes its processes from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortune import launcher, monotonic
from ortune.errors import UsageError
from ortune.recorder.doors import VARIABLE
from ortune.recorder.watch import ProcessWatch

GRACE_S = 40.0
"""Seconds that a program gets to end after its time limit, before it is killed."""
SIGNALLED = 128
"""Number that shells add to the signal that ended a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedProgram:
    """Result of a program that has ended.

    Attributes:
        start_ns, elapsed_ns: Start on the monotonic clock and duration, in nanoseconds.
        cpu_ns: CPU time, including that of children that it waited for.
        status: Exit code, or minus the number of the signal that ended it.
        late: Whether its time limit was exceeded.
        interrupted: Name of the signal, such as that of Ctrl-C, that requested its end shortly before; "" if none did.
        watch: Its processes, as observed.
    """

    start_ns: int
    elapsed_ns: int
    cpu_ns: int
    status: int
    late: bool
    interrupted: str
    watch: ProcessWatch

    @property
    def code(self) -> int:
        """Exit code in the form of a shell: 128 plus the number of the signal that ended the program."""
        return SIGNALLED - self.status if self.status < 0 else self.status


def require_proc() -> None:
    """Raise an error on a system without /proc.

    Raises:
        UsageError: There is no /proc.
    """
    if not Path("/proc/self/task").is_dir():
        raise UsageError("recording needs Linux and /proc", do="run it on Linux, or in a container")


def follow(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    door: Path,
    *,
    variable: str = VARIABLE,
    limit_s: float = math.inf,
    also: Callable[[], None] = lambda: None,
) -> EndedProgram:
    """Run a program in the foreground to its end.

    Args:
        command: Program and arguments.
        environment: Complete environment.
        folder: Folder for the logs of its processes.
        door: Folder that is first on its search path.
        variable: Variable with ``folder``.
        limit_s: Seconds after which the program is requested to end.
        also: Called repeatedly while the program runs.

    Raises:
        UsageError: The program cannot be started.
    """
    before, start_ns = children_cpu_ns(), monotonic.now_ns()
    try:
        program = launcher.Foreground(command, environment=environment)
    except OSError as error:
        raise UsageError(
            f"cannot be started: {error.strerror}", where=command[0], do="check the command after --"
        ) from error
    watch = ProcessWatch(program.pid, folder, door, variable)

    def tick() -> float:
        again_s = watch.look()
        also()
        return again_s

    status = program.wait(tick, limit_s=limit_s)
    late = status is None
    if status is None:
        status = program.end(GRACE_S, tick)
    watch.look_closely()
    return EndedProgram(
        start_ns=start_ns,
        elapsed_ns=monotonic.now_ns() - start_ns,
        cpu_ns=children_cpu_ns() - before,
        status=status,
        late=late,
        interrupted=_interruption(program),
        watch=watch,
    )


def _interruption(program: launcher.Foreground) -> str:
    """Return the name of the signal that requested the program's end within the grace period; "" if none did."""
    if program.interrupted is None or monotonic.now_s() - program.interrupted[1] > GRACE_S:
        return ""
    return launcher.signal_name(-program.interrupted[0])


def children_cpu_ns() -> int:
    """Return the CPU time in ns of all processes that this one has waited for, including their descendants."""
    import resource  # not on Windows, which cannot record

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)
