"""``ortune lock app.workload``: locks how an application uses ONNX Runtime, and compares a new recording with it."""

from __future__ import annotations

import shlex

import msgspec

from ortune.engines.locks.application import app_differences, read_app_lock, snapshot_of, write_app_lock
from ortune.measuring.document import document
from ortune.printable import operand
from ortune.records import Envelope, Recording
from ortune.targets.machine import Machine
from ortune.verbs._app_lock import words
from ortune.verbs._app_lock.result import AppLockResult
from ortune.verbs._shared.applications import require_applicable
from ortune.verbs.lock.options import Options


def lock(options: Options, recording: Recording) -> Envelope[AppLockResult]:
    """Write the lock of a recording, or compare the recording with it.

    Raises:
        UsageError: The lock cannot be read or written.
    """
    require_applicable(options, {"check", "strict", "file", "output"})
    path, now = options.place, snapshot_of(recording)
    if not options.check:
        write_app_lock(path, now, typed=options.output is not None)
        result = AppLockResult(path=str(path), written=True, snapshot=now)
        verdict = "written"
    else:
        was = read_app_lock(path, shlex.join(["ortune", "lock", operand(str(options.model))]))
        changes = app_differences(was, now, strict=options.strict)
        result = AppLockResult(path=str(path), written=False, snapshot=now, changes=changes)
        verdict = "changed" if any(change.fails for change in changes) else "unchanged"
    result = msgspec.structs.replace(result, headline=words.headline(result))
    return document("app-lock", result, host=Machine().host, verdict=verdict)
