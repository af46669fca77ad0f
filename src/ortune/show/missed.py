"""Processes that used ONNX Runtime but could not be recorded, in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ortune.records import MissedProcess
from ortune.show.document import Block, Code, Points
from ortune.show.numbers import shorten

SHOWN = 12
_REASONS = {
    "isolated": "python was started with -I or -E, which ignore the environment",
    "no-site": "python was started with -S, which skips start-up modules",
    "path-replaced": "PYTHONPATH was replaced, and another sitecustomize comes first or none is found",
    "environment-cleared": "it was started without the environment of its parent",
    "not-python": "it is not a Python program, and either cc is missing or ONNX Runtime is loaded in an unusual way",
    "static": "ONNX Runtime is linked into it",
    "frozen": "it is a frozen program (PyInstaller), which ignores the environment",
    "old-python": "its Python is older than 3.8",
    "other-recording": "another ortune record recorded it",
    "own-library": "it uses an ONNX Runtime library of its own, whose sessions could not be recorded",
    "unknown": "the reason is unknown",
    "unseen": "the recorder could not enter it, and its last moments could not be observed: run it again",
}


def missed_points(missed: Sequence[MissedProcess], title: str) -> Iterator[Block]:
    """Yield the missed processes with their reasons, and the command that would record them if there is one."""
    if not missed:
        return
    items = []
    for process in missed[:SHOWN]:
        name = shorten(shlex.join(process.argv), 80) or f"process {process.pid}"
        library = f" ({process.library})" if process.library else ""
        items.append(f"{name}: {_REASONS[process.reason]}{library}")
    if len(missed) > SHOWN:
        items.append(f"and {len(missed) - SHOWN} more")
    yield Points(items=items, title=title, marked=True)
    if any(process.reason in ("isolated", "unseen") for process in missed):
        yield Code(title="next", lines=["ortune record --install VENV"])
