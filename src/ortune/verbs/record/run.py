"""``ortune record``: runs a program unchanged and records how it uses ONNX Runtime."""

from __future__ import annotations

import math
import os
from pathlib import Path

import msgspec

from ortune import files, rules
from ortune.errors import UsageError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.recorder import doors, program
from ortune.recorder.anonymous import anonymous
from ortune.records import Envelope, RecordedWorkload, Recording
from ortune.rules import Facts
from ortune.targets.machine import Machine
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.spelling import path
from ortune.verbs.record import words
from ortune.verbs.record.options import USUAL, Options
from ortune.verbs.record.result import RecordResult

MOST_INPUTS = 100


def run(options: Options, watcher: Watcher | None = None) -> Envelope[RecordResult]:
    """Run a program and record it, or install or uninstall the recorder.

    Returns:
        The document. Its ``verdict`` is "findings", "nothing-found", "no-sessions" or "missed" for a recording.

    Raises:
        UsageError: There is no command, it cannot be started, an option is invalid, or the file cannot be written.
    """
    host = Machine().host
    installing = [place for place in (options.install, options.uninstall) if place is not None]
    if len(installing) + bool(options.command) != 1:
        raise UsageError(
            "pass a command, or --install, or --uninstall", do="ortune record -- python app.py, for example"
        )
    if installing:
        change = doors.install if options.install is not None else doors.uninstall
        changed = tuple(map(str, change(Path(installing[0]))))
        result = RecordResult(installed=changed if options.install is not None else ())
        headline = words.installed(changed, removed=options.install is None)
        return document("record", msgspec.structs.replace(result, headline=headline), host=host)
    duration_s = math.inf if options.duration is None else seconds(options.duration, "--duration")
    if options.with_inputs is not None and not 1 <= options.with_inputs <= MOST_INPUTS:
        raise UsageError(
            f"{options.with_inputs} is not a number from 1 to {MOST_INPUTS}",
            where="--with-inputs",
            do="e.g. 3",
        )
    recording = program.record(
        list(options.command),
        duration_s=duration_s,
        with_inputs=options.with_inputs or 0,
        given=os.environ,
    )
    result = result_of(recording)
    if recording.sessions:
        kept = anonymous(recording) if options.anonymous else recording
        text = msgspec.json.encode(RecordedWorkload(cases=(), recording=kept))
        place = path(options.output) or Path(USUAL)
        try:
            if options.output is None:
                place = _reserved(place)
            files.write(place, text + b"\n", typed=options.output is not None)
        except OSError as error:
            raise UsageError(
                f"the workload cannot be written: {error.strerror}",
                where=str(place),
                do="choose another path",
            ) from error
        result = msgspec.structs.replace(result, path=str(place))
    return document("record", result, host=host, verdict=verdict(result))


def result_of(recording: Recording) -> RecordResult:
    """Return the result of a recording: its findings, and the recording without input values."""
    findings = rules.found_by(rules.Selection().rules(("application",)), Facts(recording=recording))
    result = RecordResult(
        recording=msgspec.structs.replace(recording, values=()),
        findings=findings,
        notes=tuple(words.inputs(recording)),
    )
    return msgspec.structs.replace(result, headline=words.headline(result))


def exit_code(envelope: Envelope[RecordResult]) -> int:
    """Return the program's exit code, or 3 if it is 0 and a process was missed."""
    recording = envelope.result.recording
    return 0 if recording is None else program.exit_code(recording)


def verdict(result: RecordResult) -> str:
    """Return the verdict: "findings", "missed", "nothing-found" or "no-sessions"."""
    recording = result.recording
    assert recording is not None
    if result.findings:
        return "findings"
    if recording.missed:
        return "missed"
    return "nothing-found" if recording.sessions else "no-sessions"


def _reserved(usual: Path) -> Path:
    """Create an empty file with the usual name, or with a number appended, and return its path.

    The file reserves the name, because another recording in this folder may end at the same time.
    """
    place, number = usual, 1
    while True:
        try:
            place.touch(exist_ok=False)
            return place
        except FileExistsError:
            number += 1
            place = usual.with_name(f"{usual.stem}-{number}{usual.suffix}")
