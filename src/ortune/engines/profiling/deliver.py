"""Writes a profile's trace, exports and page, and stores its result."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from ortune import files
from ortune.errors import UsageError
from ortune.records import Envelope, ProfileResult, Timeline
from ortune.store.db import SessionLog
from ortune.trace import export
from ortune.trace.table import Trace
from ortune.trace.timeline import timeline_data

STORED = 20_000
"""Maximum number of executions in a stored timeline, which are from the last runs of a long trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliverables:
    """Files to write in addition to the result.

    Attributes:
        exports: Paths of files in other tools' formats.
        page: Path of the page; None for none.
        keep: Path of the kept trace; None for none.
        timeline: Whether the result contains the timeline.
    """

    exports: export.Wanted = ()
    page: Path | None = None
    keep: Path | None = None
    timeline: bool = False


def deliver(
    envelope: Envelope[ProfileResult],
    trace: Trace,
    path: Path,
    deliverables: Deliverables,
    log: SessionLog,
    render: Callable[[Envelope[ProfileResult], Timeline], str],
) -> Envelope[ProfileResult]:
    """Write the files and store the document, which is stored even if a file cannot be written.

    Raises:
        UsageError: A file cannot be written; the result is stored anyway.
    """
    try:
        if deliverables.keep is not None:
            envelope = _changed(envelope, trace=_copy_trace(envelope, path, deliverables.keep))
        result = envelope.result
        envelope = _changed(envelope, exports=export.write_all(deliverables.exports, trace, result))
        if deliverables.page is not None:
            write_page(render(envelope, timeline_data(trace)), deliverables.page)
            exports = {**envelope.result.exports, "report": str(deliverables.page)}
            envelope = _changed(envelope, exports=exports)
    except UsageError as error:
        raise _stored(error, log) from error
    finally:
        log.add("timeline", timeline_data(trace, STORED))
        log.add("result", envelope)
    return _changed(envelope, timeline=timeline_data(trace)) if deliverables.timeline else envelope


def _copy_trace(envelope: Envelope[ProfileResult], path: Path, keep: Path) -> object:
    try:
        with files.open_file(path) as trace:
            files.write(keep, partial(shutil.copyfileobj, trace), typed=True)
    except OSError as error:
        raise UsageError(
            f"the trace cannot be kept: {error.strerror}", where=str(keep), do="choose another --keep"
        ) from error
    return msgspec.structs.replace(envelope.result.trace, path=str(keep))


def write_page(page: str, path: Path, log: SessionLog | None = None) -> None:
    """Write the page of ``--report``.

    Raises:
        UsageError: The page cannot be written; the advice names the stored result, if there is one.
    """
    try:
        files.write(path, page, typed=True)
    except OSError as error:
        what, do = f"the page cannot be written: {error.strerror}", "choose another --report"
        trouble = UsageError(what, where=str(path), do=do)
        raise (_stored(trouble, log) if log else trouble) from error


def _stored(error: UsageError, log: SessionLog) -> UsageError:
    """Return the error, with advice to show the stored result if there is one."""
    if not log.id or log.trouble:
        return error
    do = "; ".join(part for part in (error.do, f"the result is stored: ortune report {log.id}") if part)
    return UsageError(error.what, where=error.where, do=do)


def _changed(envelope: Envelope[ProfileResult], **fields: object) -> Envelope[ProfileResult]:
    result = msgspec.structs.replace(envelope.result, **fields)
    return msgspec.structs.replace(envelope, result=result)
