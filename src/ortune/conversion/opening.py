"""Opening a source: the interpreter that has its framework, and what its process is asked first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ortune.conversion.kinds import SourceKind
from ortune.errors import RuntimeNotFound
from ortune.experiment.watcher import Watcher
from ortune.fleet import made, runtimes
from ortune.records import OpenSource


def python_of(kind: SourceKind, named: str | None, option: str, watch: Watcher) -> str:
    """The interpreter that has the framework: the user's, or that of the environment that is made once.

    Args:
        kind: What the source is.
        named: The user's interpreter or environment; None takes the one that is made.
        option: What named it, as errors say.
        watch: Is told what is made first.

    Raises:
        RuntimeNotFound: There is none, or it cannot be made.
    """
    if named is None:
        with watch.clock.stopped():
            return made.require(kind.converter.name, watch.say).runtime.python
    python = runtimes.interpreter(named)
    if not python:
        raise RuntimeNotFound("there is no Python interpreter", where=f"{option} {named}")
    return python


def example_of(place: Path | None) -> dict[str, np.ndarray]:
    """The inputs that a source brought as its example; {} where it brought none."""
    if place is None:
        return {}
    with np.load(place, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def open_request(kind: SourceKind, shapes: Mapping[str, tuple[int, ...]], example: Path) -> OpenSource:
    """What a framework's process is asked first."""
    return OpenSource(
        kind=kind.kind,
        source=kind.text if kind.factory else str(Path(kind.text).resolve()),
        factory=kind.factory,
        folder=str(Path.cwd()),
        shapes=dict(shapes),
        example=str(example),
    )
