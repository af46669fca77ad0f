"""Creates a workload from the part of an application's recording that uses one model."""

from __future__ import annotations

import hashlib
import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ortune import files
from ortune.errors import InputError
from ortune.graph.model.open import OpenModel
from ortune.inputs import recording_file, user_feeds, workload
from ortune.inputs.feeds import FeedValue
from ortune.inputs.recording_file import Shapes, case_name, shapes_of, value_name
from ortune.records import Arrival, ArrivalSchedule, Case, RecordedSession, Recording, Workload

MOST_CASES = 8
"""Maximum number of shapes to keep, the most frequent first, since each needs a trial."""
_OFTEN = 0.05
"""Minimum fraction of calls during which a number of callers was active, for this number to count."""


def of_model(
    recording: Recording,
    model: OpenModel,
    number: int | None,
    *,
    where: str,
    seed: int,
    most_cases: int = MOST_CASES,
) -> Workload:
    """Return an application's use of one model as a workload: shapes weighted by their calls, gap, and callers.

    Shapes with recorded values have one case for each recorded value.

    Args:
        recording: The recording.
        model: The model, identified by its sha256.
        number: Number of the session in the file, from 1; None for all sessions of the model.
        where: The file, or ``FILE#N`` for one session.
        seed: Seed of the generated values.
        most_cases: Maximum number of shapes to keep, the most frequent first.

    Raises:
        InputError: No session of the model was recorded or called, or the shapes do not fit.
    """
    sessions = _sessions(recording, model, number, where)
    counted = _counted(sessions)
    shown = counted.most_common(most_cases)
    if not shown:
        raise InputError(
            "the recording has no call of this model with known shapes",
            where=where,
            do="pass --shape or --inputs",
        )
    total = sum(count for _, count in shown)
    part = recording.sessions.index(sessions[0]) + 1
    values = user_feeds.recorded(recording_file.values_of(recording, part, model.ir, where), model.ir)
    cases: list[Case] = []
    n_recorded = 0
    for shapes, count in shown:
        (case,) = workload.propose(model.ir, shapes=dict(shapes), seed=seed).cases
        case = msgspec.structs.replace(case, name=case_name(shapes), weight=count / total)
        own = _with_values(case, values)
        n_recorded += bool(own)
        cases += own or [case]
    gap_ns, callers = _load(recording, sessions)
    notes = [f"recorded: {total:,} calls of {len(sessions)} session{'s' * (len(sessions) != 1)}"]
    if len(counted) > len(shown):
        notes.append(f"the {len(shown)} most frequent of {len(counted)} shapes")
    if n_recorded:
        notes.append(f"recorded values for {n_recorded} of {len(shown)} shapes")
    return Workload(
        cases=tuple(cases),
        seed=seed,
        inputs_path=f"{recording_file.split(Path(where))[0]}#{part}" if n_recorded else "",
        gap_ns=gap_ns,
        callers=callers,
        notes=tuple(notes),
    )


def _with_values(case: Case, values: Mapping[str, Mapping[str, FeedValue]]) -> list[Case]:
    """Return a case for each set of recorded values with the case's shapes; [] if there are none."""
    names = [value_name(case.name, number) for number in range(len(values))]
    names = [name for name in names if name in values]
    found = []
    for name in names:
        ranges = {each: user_feeds.value_range(value) for each, value in values[name].items()}
        inputs = tuple(
            msgspec.structs.replace(
                choice, origin="user", low=ranges[choice.name][0], high=ranges[choice.name][1]
            )
            for choice in case.inputs
        )
        found.append(msgspec.structs.replace(case, name=name, weight=case.weight / len(names), inputs=inputs))
    return found


def arrivals_of(path: Path, model: OpenModel) -> ArrivalSchedule:
    """Return the times of an application's calls of one model, each with the index of its case in ``of_model``.

    Args:
        path: The file, or ``FILE#N`` for one session.
        model: The model.

    Raises:
        InputError: The file is not a recording, or has times of fewer than two calls of the model.
    """
    file, number = recording_file.split(path)
    try:
        recording = recording_file.read(file)
    except OSError as error:
        raise InputError(f"the workload cannot be read: {error.strerror}", where=str(path)) from error
    if recording is None:
        raise InputError(
            "it is not a recording of an application", where=str(path), do="create one with ortune record"
        )
    sessions = _sessions(recording, model, number, str(path))
    shown = [shapes for shapes, _ in _counted(sessions).most_common(MOST_CASES)]
    values = recording_file.counted_values(recording)
    sha256 = recording.models[sessions[0].model].sha256
    n_cases = [max(1, values[sha256, shapes]) for shapes in shown]
    called: list[tuple[int, int]] = []
    for process in {session.process for session in sessions}:
        by_key = {calls.key: shapes_of(calls) for s in sessions if s.process == process for calls in s.calls}
        for call in recording.processes[process].arrivals:
            if by_key.get(call.key) in shown:
                called.append((call.start_ns, shown.index(by_key[call.key])))
    found: list[tuple[int, int]] = []
    turns: Counter[int] = Counter()
    for start_ns, place in sorted(called):  # recorded values of equal shapes are used in turn
        found.append((start_ns, sum(n_cases[:place]) + turns[place] % n_cases[place]))
        turns[place] += 1
    if len(found) < 2 or found[0][0] == found[-1][0]:
        raise InputError(
            "it has no times of several calls of this model",
            where=str(path),
            do="use --rate, e.g. --rate 10/s",
        )
    first_ns = found[0][0]
    return ArrivalSchedule(
        starts_ns=tuple(start - first_ns for start, _ in found), cases=tuple(case for _, case in found)
    )


def _counted(sessions: Sequence[RecordedSession]) -> Counter[Shapes]:
    """Return the number of successful calls for each combination of input shapes."""
    counted: Counter[Shapes] = Counter()
    for calls in (calls for session in sessions for calls in session.calls):
        if calls.method.startswith("run") and shapes_of(calls):
            counted[shapes_of(calls)] += calls.count - calls.failed
    return +counted


def _sessions(
    recording: Recording, model: OpenModel, number: int | None, where: str
) -> list[RecordedSession]:
    if number is not None:
        if not 1 <= number <= len(recording.sessions):
            raise InputError(
                f"there is no session {number}",
                where=where,
                do=f"use a number from 1 to {len(recording.sessions)}",
            )
        chosen = recording.sessions[number - 1 : number]
    else:
        chosen = recording.sessions
    digests = {model.sha256, _file_digest(Path(model.facts.path))}
    found = [session for session in chosen if recording.models[session.model].sha256 in digests]
    if not found:
        names = sorted({each.path.rpartition("/")[2] or each.sha256[:8] for each in recording.models} - {""})
        raise InputError(
            f"it has no session of {Path(model.facts.path).name} (recorded: {', '.join(names[:8]) or 'none'})",
            where=where,
            do="pass the file that the application loads, unchanged",
        )
    return found


def _file_digest(path: Path) -> str:
    """Return the sha256 of a model file without its external data, as in a recording; "" if it cannot be read."""
    try:
        return hashlib.sha256(files.read(path)).hexdigest()
    except OSError:
        return ""


def _load(recording: Recording, sessions: Sequence[RecordedSession]) -> tuple[int, int]:
    """Return the median gap between calls in nanoseconds, or 0 with several callers, and the number of callers."""
    gaps: list[int] = []
    active: Counter[int] = Counter()
    for number in {session.process for session in sessions}:
        keys = {calls.key for session in sessions if session.process == number for calls in session.calls}
        calls = sorted(
            (call for call in recording.processes[number].arrivals if call.key in keys), key=_start
        )
        active.update(call.active for call in calls)
        gaps += [
            max(0, after.start_ns - before.start_ns - before.took_ns)
            for before, after in itertools.pairwise(calls)
        ]
    often = [callers for callers, count in active.items() if count >= _OFTEN * sum(active.values())]
    callers = max(1, *often) if often else 1
    return (round(statistics.median(gaps)) if gaps and callers == 1 else 0), callers


def _start(call: Arrival) -> int:
    return call.start_ns
