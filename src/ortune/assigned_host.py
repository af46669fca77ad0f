"""The host of a cluster that runs the processes of a measurement instead of this machine.

An executor assigns a host to the thread that runs a model. Everything that starts a process for the model reads the
assignment here, so no function between them has to pass it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Protocol

from ortune.errors import MeasurementError


class HostProcess(Protocol):
    """A process on a host; the part of ``subprocess.Popen`` that ``launcher.Child`` uses."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Standard input of the process."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Standard output of the process, a pipe."""
        ...

    @property
    def stderr(self) -> IO[bytes] | None:
        """Standard error of the process, a pipe; None if stderr is written to a log file."""
        ...

    @property
    def pid(self) -> int:
        """Process ID; meaningless on this machine if the process runs on a host of a cluster."""
        ...

    @property
    def returncode(self) -> int | None:
        """Exit code; None until the process is known to have ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises:
            launcher.StillRunning: The process still runs after ``timeout`` seconds.
        """
        ...

    def kill(self) -> None:
        """End the process with all its descendants."""
        ...


class AssignedHost(Protocol):
    """A host of a cluster that runs the processes of one measurement.

    Attributes:
        python: Name of the host's interpreter in results, and in commands that are started there.
    """

    python: str

    def start(self, arguments: Sequence[str], log: IO[bytes] | None) -> HostProcess:
        """Start the host's interpreter with these arguments.

        Args:
            arguments: Command-line arguments.
            log: File that receives stderr; None for a pipe.

        Raises:
            OSError: The process cannot be started.
            HostLost: The host does not answer.
        """
        ...

    def keep(self, content: Path, digest: str, size_bytes: int) -> None:
        """Copy the file ``content`` into the host's cache, unless the cache has a file with this digest.

        Raises:
            UsageError: The file is too large for the cluster to transfer.
            HostLost: The host does not answer.
        """
        ...

    def locked(self, what: str, budget_s: float | None) -> str:
        """Try to acquire the host's measuring lock; return "" on success, otherwise a description of its holder.

        Raises:
            HostLost: The host does not answer.
        """
        ...

    def holding(self) -> AbstractContextManager[None]:
        """Return a context manager that releases the lock on exit."""
        ...

    def require_alive(self) -> None:
        """Check that the host answers.

        Raises:
            HostLost: The host does not answer.
        """
        ...


class HostLost(MeasurementError):
    """A host of a cluster no longer answers, so there is no result for the model that ran there."""

    default_code = "host-lost"


assigned: ContextVar[AssignedHost | None] = ContextVar("assigned", default=None)
"""The host that runs the processes of this thread; None for this machine."""


def require_alive() -> None:
    """Check that the assigned host answers, before a failure of a process is attributed to the process.

    Raises:
        HostLost: The host does not answer.
    """
    host = assigned.get()
    if host is not None:
        host.require_alive()
