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


def tune(model: str | Path, **options: Any) -> Envelope:
    """The fastest correct way to run a model on this machine, proven.

    Args:
        model: The model.
        **options: Fields of ``ortune.flows.tune_options.Options``, and ``watcher``.

    Returns:
        The whole document; ``result`` is a TuneResult.

    Raises:
        OrtuneError: Nothing could be tuned.
    """
    from ortune.flows.deliver import tune_and_deliver
    from ortune.flows.tune_options import Options

    watcher = options.pop("watcher", None)
    return tune_and_deliver(Options(model=str(model), **options), watcher)


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
