"""Opens a source: finds an interpreter with its framework, and reads the source in such a process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ortune import durations
from ortune.engines.conversion.kinds import SourceKind
from ortune.errors import RuntimeNotFound, UsageError
from ortune.inputs.user_feeds import read_arrays
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.watcher import Watcher
from ortune.records import OpenSource, SourceOpened
from ortune.runtimes import made, runtimes
from ortune.search.phases import LEAST_LOAD_S
from ortune.targets.fence import fence_of
from ortune.targets.source import NEVER_OPEN, RUN_S, SourceProcess
from ortune.targets.task import Limits
from ortune.worker import fence


def python_of(kind: SourceKind, named: str | None, option: str, watch: Watcher) -> str:
    """Return the interpreter with the framework: the user's, or that of an environment which is installed once.

    Args:
        kind: Kind of the source.
        named: The user's interpreter or environment; None for the installed one.
        option: Option that names the interpreter, for errors.
        watch: Progress and cancellation callbacks.

    Raises:
        RuntimeNotFound: There is no interpreter, or the environment cannot be installed.
    """
    if named is None:
        with watch.clock.stopped():
            return made.require_installed(kind.converter.name, watch.say).runtime.python
    python = runtimes.interpreter(named)
    if not python:
        raise RuntimeNotFound("there is no Python interpreter", where=f"{option} {named}")
    return python


def require_fence(kind: SourceKind, *, trusted: bool) -> None:
    """Check, before anything is opened or installed, that this system can confine the source's process.

    Raises:
        UsageError: The system cannot confine it, and the user does not trust the source.
    """
    lacking = "" if trusted else fence.missing()
    if lacking:
        raise UsageError(
            f"sources are opened only in confinement, which this system does not support: {lacking}",
            where=kind.text,
            do="if you trust the source, pass --trust-source; otherwise use Linux 5.13 or newer",
            code="source-unfenced",
        )


@dataclass(frozen=True, kw_only=True)
class OpenedSource:
    """A source opened in a process of its framework.

    Attributes:
        process: The process.
        request: Request that opened it.
        told: The process's description of the source.
        example: The source's example inputs; {} if it has none.
    """

    process: SourceProcess
    request: OpenSource
    told: SourceOpened
    example: Mapping[str, np.ndarray]


@contextlib.contextmanager
def opened_source(
    kind: SourceKind,
    python: str,
    folder: Path,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    trusted: bool,
    feeds: Path | None = None,
    budget: Budget = UNLIMITED,
) -> Iterator[OpenedSource]:
    """Open a source in a process of its framework, confined unless the user trusts the source.

    Args:
        kind: Kind of the source.
        python: Interpreter with the framework.
        folder: Folder of the process, to which alone it may write.
        shapes: Input shapes, for a source that does not declare them.
        trusted: Whether the process is not confined.
        feeds: Folder of the inputs for the runs; None if the source is not run.
        budget: Time of the invocation, of which opening may take the rest, and at least ``LEAST_LOAD_S``.

    Raises:
        OrtuneError: The source cannot be opened.
    """
    most_s = Limits().load_s
    limits = Limits(load_s=min(most_s, max(LEAST_LOAD_S, budget.left_s)), run_s=RUN_S)
    do = NEVER_OPEN
    if limits.load_s < most_s:
        enough_s = budget.total_s + limits.load_s
        do = f"{NEVER_OPEN}, or allow more time: --budget {durations.as_option(enough_s)}"
    example = folder / "example.npz"
    # A function may read its own folder, from which its module imports others.
    own = Path.cwd() if kind.factory else Path(kind.text).resolve()
    with SourceProcess(python, folder, kind.text, limits, do) as process:
        request = OpenSource(
            kind=kind.kind,
            source=kind.text if kind.factory else str(own),
            factory=kind.factory,
            folder=str(Path.cwd()),
            shapes=dict(shapes),
            example=str(example),
            fence=None if trusted else fence_of([own, *([feeds] if feeds else [])], folder),
        )
        told = process.ask(request, SourceOpened)
        arrays = read_arrays(example, f"the example of {kind.text}") if told.example else {}
        assert isinstance(arrays, Mapping)  # an archive contains a mapping
        values = {name: np.asarray(array) for name, array in arrays.items()}
        yield OpenedSource(process=process, request=request, told=told, example=values)
