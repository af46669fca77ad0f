"""One function a verb, with the names of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortune.records import Envelope


def compare(a: str | Path, b: str | Path | None = None, **options: Any) -> Envelope:
    """Is B faster than A on this machine?

    Args:
        a: The base: model, bundle, or ``model.onnx@git-revision``.
        b: The new side; also a plan file. None is A's model.
        **options: Fields of ``ortune.flows.compare_options.Options``, and ``watcher``.

    Returns:
        The whole document; ``result`` is a CompareResult.

    Raises:
        OrtuneError: Nothing could be compared.
    """
    from ortune.flows.compare import compare as run
    from ortune.flows.compare_options import Options

    watcher = options.pop("watcher", None)
    return run(Options(a=str(a), b=None if b is None else str(b), **options), watcher)


def doctor(**options: Any) -> Envelope:
    """What this machine can run and measure.

    Args:
        **options: Fields of ``ortune.flows.doctor.Options``, and ``watcher``.

    Returns:
        The whole document; ``result`` is a DoctorResult.
    """
    from ortune.flows.doctor import Options
    from ortune.flows.doctor import doctor as run

    watcher = options.pop("watcher", None)
    return run(Options(**options), watcher)
