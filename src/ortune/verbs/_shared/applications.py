"""Verbs that accept the recording of an application instead of a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ortune import files
from ortune.errors import UsageError
from ortune.inputs import recording_file
from ortune.records import Recording
from ortune.verbs._shared.spelling import AnyPath, Option, named, option_fields

if TYPE_CHECKING:
    from ortune.measuring.application import Application
    from ortune.measuring.opening import Experiment
    from ortune.stats.arrivals import RecordedArrivals

MODEL_SUFFIXES = (".onnx", ".ort", ".ortune")
TAKEN = frozenset({
    "model", "budget", "seed", "runtime", "models", "no_wait", "wait_quiet", "store", "report", "export",
})  # fmt: skip
"""Options that every verb accepts for a recording."""


def recording_of(model: object) -> Recording | None:
    """Return the recording in a file; None if the file is not a recording."""
    text = str(model)
    if text.endswith(MODEL_SUFFIXES) or not files.is_file(text):
        return None
    try:
        return recording_file.read(Path(text))
    except OSError:
        return None


class Replaying(Protocol):
    """Options of a verb that replays a recording."""

    @property
    def model(self) -> AnyPath:
        """Path of the recording."""

    @property
    def models(self) -> Sequence[AnyPath]:
        """Files and folders to search for models."""

    @property
    def runtime(self) -> AnyPath | None:
        """The runtime that replays the recording; None if the user named none."""


def application_of(
    opened: Experiment,
    options: Replaying,
    recording: Recording,
    *,
    in_node: bool = True,
    arrivals: RecordedArrivals | None = None,
) -> Application:
    """Open the models of a recording with the runtime of the options.

    Args:
        opened: The experiment.
        options: Options of the verb.
        recording: The recording.
        in_node: Whether Node.js may replay it.
        arrivals: Start times of calls; None for the recorded gaps.

    Raises:
        OrtuneError: No model was found, or the runtime cannot replay the recording.
    """
    from ortune.measuring.application import Application  # verbs that only read a recording need none

    models = [Path(path) for path in options.models]
    where = Path(options.model)
    application = Application(opened, recording, where=where, models=models, arrivals=arrivals)
    application.resolve(named(options.runtime), in_node=in_node)
    return application


def require_applicable(options: Any, more: Collection[str]) -> None:
    """Check that only options were passed that apply to a recording.

    Args:
        options: Options of the verb.
        more: Names of further options that the verb accepts for a recording.

    Raises:
        UsageError: An option was passed that only applies to a single model.
    """
    for field in option_fields(type(options)):
        if field.name in TAKEN or field.name in more or not isinstance(field.spelling, Option):
            continue
        if field.given(options):
            raise UsageError(
                "does not apply to a recording, which has models, shapes and callers of its own",
                where=field.spelling.flag,
                do="omit it",
            )


def require_no_models(models: Collection[object]) -> None:
    """Raise UsageError if ``--models`` was passed without a recording."""
    if models:
        raise UsageError("applies only to a recording", where="--models", do="omit it")
