"""The part of one model in the recording of an application, as a workload."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune import files
from ortune.errors import InputError
from ortune.graph.model.open import OpenModel
from ortune.inputs import feed_files, value_files, workload
from ortune.inputs.feeds import FeedValue, numpy_dtype
from ortune.records import (
    Arrival,
    ArrivalSchedule,
    Case,
    RecordedCalls,
    RecordedSession,
    RecordedValues,
    RecordedWorkload,
    Recording,
    Workload,
    read_json,
)

MOST_CASES = 8
"""Shapes that are kept, those of the most calls; a mix of hundreds would take a trial for each."""
_OFTEN = 0.05
"""Share of the calls during which so many callers must have been active to count."""
_DTYPES = frozenset(
    f"{kind}{bits}" for kind, sizes in {"float": (16, 32, 64), "int": (8, 16, 32, 64), "uint": (8, 16, 32, 64)}.items()
    for bits in sizes
) | {"bool"}  # fmt: skip
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def split(path: Path) -> tuple[Path, int | None]:
    """Return the file and the number of the session in ``FILE#N``; None without a number."""
    match = re.fullmatch(r"(.+)#(\d+)", str(path))
    if match is None or files.exists(path):
        return path, None
    return Path(match[1]), int(match[2])


def read(path: Path) -> Recording | None:
    """Read the recording in a workload file; None if it is the workload of one model, or none at all.

    Raises:
        OSError: The file cannot be read.
        InputError: It has a recording that is damaged.
    """
    text = files.read(path)
    try:
        return read_json(text, RecordedWorkload).recording
    except msgspec.DecodeError as error:
        if not _has_recording(text):
            return None
        raise InputError(
            f"its recording is damaged: {error}", where=str(path), do="create it again with ortune record"
        ) from None


class _Part(msgspec.Struct):
    """The part of a workload file that shows its kind."""

    recording: msgspec.Raw = msgspec.Raw(b"null")


def _has_recording(text: bytes) -> bool:
    """Return whether a file is JSON with a recording, whatever is in that."""
    try:
        return bytes(read_json(text, _Part).recording) != b"null"
    except msgspec.DecodeError:
        return False


def of_model(
    recording: Recording,
    model: OpenModel,
    number: int | None,
    *,
    where: str,
    seed: int,
    most_cases: int = MOST_CASES,
) -> Workload:
    """Return how an application uses one model: its shapes by their share of the calls, gap and callers.

    Args:
        recording: What was recorded.
        model: The model, which is found by its sha256.
        number: The session, counted from 1 in the file; None for all sessions of the model.
        where: The file, for errors.
        seed: Seed of the generated values.
        most_cases: Shapes that are kept, those of the most calls.

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
    cases = []
    for shapes, count in shown:
        (case,) = workload.propose(model.ir, shapes=dict(shapes), seed=seed).cases
        cases.append(msgspec.structs.replace(case, name=case_name(shapes), weight=count / total))
    gap_ns, callers = _load(recording, sessions)
    notes = [f"recorded: {total:,} calls of {len(sessions)} session{'s' * (len(sessions) != 1)}"]
    if len(counted) > len(shown):
        notes.append(f"the {len(shown)} most frequent of {len(counted)} shapes")
    return Workload(cases=tuple(cases), seed=seed, gap_ns=gap_ns, callers=callers, notes=tuple(notes))


def case_name(shapes: Shapes) -> str:
    """Return the name of the case with these shapes."""
    return ",".join(f"{name}={'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes)


def arrivals_of(path: Path, model: OpenModel) -> ArrivalSchedule:
    """Return when an application called one model, and with which of the shapes of ``of_model``, by their index.

    Args:
        path: The file, or one session of it as ``FILE#N``.
        model: The model.

    Raises:
        InputError: It is no recording, or has fewer than two calls of this model one by one.
    """
    file, number = split(path)
    try:
        recording = read(file)
    except OSError as error:
        raise InputError(f"the workload cannot be read: {error.strerror}", where=str(path)) from error
    if recording is None:
        raise InputError(
            "it is not a recording of an application", where=str(path), do="create one with ortune record"
        )
    sessions = _sessions(recording, model, number, str(path))
    shown = [shapes for shapes, _ in _counted(sessions).most_common(MOST_CASES)]
    found: list[tuple[int, int]] = []
    for process in {session.process for session in sessions}:
        by_key = {calls.key: shapes_of(calls) for s in sessions if s.process == process for calls in s.calls}
        for call in recording.processes[process].arrivals:
            if by_key.get(call.key) in shown:
                found.append((call.start_ns, shown.index(by_key[call.key])))
    found.sort()
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


def counted_values(recording: Recording) -> Counter[tuple[int, Shapes]]:
    """Return how many different inputs were recorded of each model and combination of shapes."""
    return Counter((values.model, _shapes_of_values(values)) for values in recording.values)


def with_values(
    work: Workload, recording: Recording, model: int, ir_model: ir.Model, folder: Path
) -> Workload:
    """Return the workload of ``of_model`` with a case for each recorded input, if there are some.

    Args:
        work: One case for each combination of shapes.
        recording: What was recorded.
        model: The index of the model in it.
        ir_model: The model.
        folder: A new folder for the inputs; those of combinations that have none are generated.

    Raises:
        InputError: A recorded input is damaged or does not fit the model.
    """
    by_case: dict[str, list[RecordedValues]] = {}
    for values in recording.values:
        if values.model == model:
            by_case.setdefault(case_name(_shapes_of_values(values)), []).append(values)
    if not by_case:
        return work
    cases, arrays = [], []
    for case, generated in workload.feeds(ir_model, work):
        own = [_arrays(values, case) for values in by_case.get(case.name, ())] or [generated]
        cases += [
            msgspec.structs.replace(case, name=value_name(case.name, number), weight=case.weight / len(own))
            for number in range(len(own))
        ]
        arrays += own
    for number, feeds in enumerate(arrays):
        place = folder / f"feeds-{number}"
        feed_files.write_feeds(place, feeds)
        stored = value_files.read_index(place, "feeds")
        value_files.write_protobufs(stored, folder / f"test_data_set_{number}", "input")
    return msgspec.structs.replace(work, cases=tuple(cases), inputs_path=str(folder))


def value_name(case: str, number: int) -> str:
    """Return the name of the case with the recorded values of this number."""
    return f"{case} #{number + 1}" if number else case


def _shapes_of_values(values: RecordedValues) -> Shapes:
    return tuple((value.name, value.shape) for value in values.inputs)


def _arrays(values: RecordedValues, case: Case) -> dict[str, FeedValue]:
    """Return recorded values in the order and with the types of the model's inputs."""
    by_name = {value.name: value for value in values.inputs}
    found: dict[str, FeedValue] = {}
    for choice in case.inputs:
        value = by_name[choice.name]
        if value.dtype not in _DTYPES:
            raise InputError(f"{value.dtype!r} is no element type", where=f"input {value.name!r}")
        dtype = np.dtype(value.dtype).newbyteorder("<")
        if len(value.data) != dtype.itemsize * math.prod(value.shape):
            raise InputError("its recorded values are damaged", where=f"input {value.name!r}")
        array = np.frombuffer(value.data, dtype).reshape(value.shape).astype(value.dtype)
        wanted = numpy_dtype(choice.dtype)
        # A list of whole numbers has 64 bits here, and in ONNX Runtime those of the model's input.
        same_kind = np.issubdtype(wanted, np.integer) == np.issubdtype(array.dtype, np.integer)
        found[choice.name] = array.astype(wanted) if same_kind else array
    return found


def _counted(sessions: Sequence[RecordedSession]) -> Counter[Shapes]:
    """Return how often each combination of shapes was called."""
    counted: Counter[Shapes] = Counter()
    for calls in (calls for session in sessions for calls in session.calls):
        if calls.method.startswith("run") and shapes_of(calls):
            counted[shapes_of(calls)] += calls.count - calls.failed
    return +counted


def shapes_of(calls: RecordedCalls) -> Shapes:
    """Return the known shapes of the inputs by their names."""
    return tuple((value.name, value.shape) for value in calls.inputs if value.shape is not None)


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
        names = sorted({each.path.rpartition("/")[2] or each.sha256[:8] for each in recording.models})
        raise InputError(
            f"it has no session of {Path(model.facts.path).name} (recorded: {', '.join(names[:8]) or 'none'})",
            where=where,
            do="pass the file that the application loads, unchanged",
        )
    return found


def _file_digest(path: Path) -> str:
    """Return the sha256 of the file alone, which a recording has also for a model with external data."""
    try:
        return hashlib.sha256(files.read(path)).hexdigest()
    except OSError:
        return ""


def _load(recording: Recording, sessions: Sequence[RecordedSession]) -> tuple[int, int]:
    """Return the median gap between calls, and how many calls were in flight."""
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
