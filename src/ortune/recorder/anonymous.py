"""Removes data that identifies the user from a recording: paths, arguments and values of environment variables."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ortune.records import Frame, MissedProcess, RecordedProcess, Recording

_PLAIN = re.compile(r"[\d.]{1,8}|true|false", re.IGNORECASE)


def anonymous(recording: Recording) -> Recording:
    """Return the recording without the paths, arguments and values of variables that may identify the user."""
    return replace(
        recording,
        command=(),
        processes=tuple(map(_process, recording.processes)),
        sessions=tuple(replace(session, error_message="") for session in recording.sessions),
        models=tuple(replace(model, path=_in_package(model.path)) for model in recording.models),
        places=tuple(tuple(map(_frame, frames)) for frames in recording.places),
        missed=tuple(map(_missed, recording.missed)),
        anonymous=True,
    )


def _in_package(path: str) -> str:
    """Return a model's path relative to the site-packages folder that contains it; "" for models elsewhere."""
    return path.partition("-packages/")[2]


def _process(process: RecordedProcess) -> RecordedProcess:
    variables = {n: v if _PLAIN.fullmatch(v) else "" for n, v in process.variables.items()}
    return replace(process, argv=(), executable="", variables=variables, stopped="")


def _frame(frame: Frame) -> Frame:
    """Return a package's frame unchanged, since its source is public; keep only the line number of other frames."""
    return frame if frame.package else Frame(file="", line=frame.line, function="")


def _missed(process: MissedProcess) -> MissedProcess:
    return replace(process, argv=(), library=re.sub(r".*/", "", process.library))
