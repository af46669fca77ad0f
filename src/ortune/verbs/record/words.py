"""Text and document of ``ortune record``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ortune.printable import operand
from ortune.records import Envelope, RecordedSession, Recording
from ortune.show import markdown
from ortune.show.document import Block, Code, Column, Document, Line, Pairs, Points, Section, Tone, table
from ortune.show.missed import missed_points
from ortune.show.numbers import counted, duration, memory, percent, shorten, whole_percent
from ortune.show.stored_kind import StoredKind
from ortune.verbs.record.result import RecordResult

SHOWN = 12


def installed(changed: Sequence[str], *, removed: bool) -> str:
    """Return a sentence on the files that were written or removed."""
    if not changed:
        return "the recorder is not installed there; nothing was removed"
    return f"{'removed' if removed else 'written'}: {', '.join(changed)}"


def headline(result: RecordResult) -> str:
    """Return the result in one sentence."""
    recording = result.recording
    if recording is None:
        return result.headline
    missed = len(recording.missed)
    if not recording.sessions:
        if missed:
            known = all(process.library for process in recording.missed)
            processes = f"{counted(missed, 'process', 'processes')}{' with ONNX Runtime' if known else ''}"
            return f"nothing was recorded: {processes} could not be recorded"
        if recording.processes:
            return "no sessions: the program imports onnxruntime and creates no session"
        return f"no sessions: {counted(recording.seen, 'process', 'processes')} seen, none with ONNX Runtime"
    if not result.findings:
        return f"nothing found: {_looked_at(recording)}"
    first, *others = result.findings
    more = f"1 of {len(result.findings)} findings: " if others else ""
    return f"{more}{first.what}"


def inputs(recording: Recording) -> Iterator[str]:
    """Yield a note on the number and size of recorded input values, if there are any."""
    if recording.values:
        size = memory(sum(len(value.data) for values in recording.values for value in values.inputs))
        yield f"the file contains the input values of {counted(len(recording.values), 'call')} ({size})"


def _looked_at(recording: Recording) -> str:
    own = [session for session in recording.sessions if not session.inherited and not session.error]
    calls = sum(session.n_calls for session in recording.sessions)
    return (
        f"{counted(len(own), 'session')} and {counted(calls, 'call')} in "
        f"{counted(len(recording.processes), 'process', 'processes')}"
    )


def document(envelope: Envelope[RecordResult]) -> Document:
    """Return the document of a recording: findings, missed processes, and the recorded sessions."""
    result = envelope.result
    assert result is not None
    recording = result.recording
    if recording is None:
        return Document(title="ortune record", blocks=[Line(result.headline, "good")])
    tone: Tone = "look" if result.findings or recording.missed else "good"
    blocks: list[Block] = [
        Line(result.headline, tone),
        *_findings(result),
        *missed_points(recording.missed, "not recorded"),
    ]
    if recording.sessions:
        blocks += [*_sessions(recording), Pairs(rows=list(_facts(recording)))]
    if result.path:
        blocks.append(Line("; ".join((f"written to {result.path}", *result.notes)), "faint"))
        if any(session.n_calls for session in recording.sessions):
            blocks.append(Code(title="next", lines=[f"ortune tune {operand(result.path)}"], commands=True))
    return Document(
        title=f"ortune record: {_command(recording)}",
        blocks=blocks,
        support=[Pairs(rows=[("looked for", ", ".join(LOOKED_FOR))])],
    )


def issue(result: RecordResult) -> str:
    """Return an issue text on the findings for the developers of a library, as Markdown.

    Args:
        result: Result of an anonymous recording; the text contains the names in the recording.
    """
    recording = result.recording
    assert recording is not None
    blocks: list[Block] = []
    for finding in result.findings:
        rows = [
            ("counted", finding.evidence),
            ("call stack", " < ".join(finding.where)),
            ("what helps", finding.fix),
        ]
        blocks.append(
            Section(title=finding.what, blocks=[Pairs(rows=[(name, text) for name, text in rows if text])])
        )
    packages = {
        f"{frame.package} {frame.version}" for frames in recording.places for frame in frames if frame.package
    }
    pythons = {process.python for process in recording.processes}
    machine = [
        *_facts(recording),
        ("Python", ", ".join(sorted(pythons))),
        ("packages", ", ".join(sorted(packages))),
    ]
    blocks += [
        *_sessions(recording),
        Section(title="Where this was recorded", blocks=[Pairs(rows=[(n, t) for n, t in machine if t])]),
        Line(
            "Recorded with ortune record: each session and each call was counted while the application ran."
        ),
    ]
    return markdown.render(Document(title="How ONNX Runtime is used", blocks=blocks))


LOOKED_FOR = (
    "sessions per call", "sessions never called", "sessions that could not be created", "copies of one model",
    "sessions inherited through a fork", "sessions created on an event loop", "discarded settings",
    "threads outside the affinity", "more threads than CPUs", "spinning between calls", "padding",
    "outputs never read",
)  # fmt: skip


def _findings(result: RecordResult) -> Iterator[Block]:
    items = []
    for number, finding in enumerate(result.findings):
        what = "" if number == 0 else f" {finding.what}"  # the headline has the first
        evidence = f" ({finding.evidence})" if finding.evidence else ""
        frames = f" [{' < '.join(finding.where)}]" if finding.where else ""
        items.append(f"{finding.code}{what}{evidence} -> {finding.fix}{frames}")
    if items:
        yield Points(items=items, title="findings", marked=True)


def _sessions(recording: Recording) -> Iterator[Block]:
    groups: dict[tuple[int, str, int], list[RecordedSession]] = {}
    for session in recording.sessions:
        if session.error:
            continue
        used = session.used.get("intra_op_num_threads", 0)
        groups.setdefault((session.model, str(used), session.process), []).append(session)
    rows = []
    ordered = sorted(groups.items(), key=lambda item: -_time_ns(item[1]))
    for (model, _, process), sessions in ordered[:SHOWN]:
        called = recording.models[model]
        name = called.path.rpartition("/")[2] or called.sha256[:8] or "?"
        calls = [calls for session in sessions for calls in session.calls]
        count = sum(each.count for each in calls)
        mean_ns = sum(each.total_ns for each in calls) / count if count else 0
        shapes = {(each.method, each.inputs) for each in calls}
        threads = sorted({1 + session.threads for session in sessions if session.threads is not None})
        rows.append([
            shorten(name, 32), str(recording.processes[process].pid), str(len(sessions)), f"{count:,}",
            duration(mean_ns) if count else "-", str(len(shapes)),
            "-".join(str(n) for n in dict.fromkeys((*threads[:1], *threads[-1:]))) or "?",
        ])  # fmt: skip
    heads = ("process", "sessions", "calls", "per call", "shapes", "threads")
    notes = (f"and {len(ordered) - SHOWN} more groups of sessions",) if len(ordered) > SHOWN else ()
    if rows:
        yield table([Column("model", "name"), *(Column(head) for head in heads)], rows, notes=notes)


def _time_ns(sessions: Sequence[RecordedSession]) -> int:
    return sum(s.creation_ns + sum(calls.total_ns for calls in s.calls) for s in sessions)


def _facts(recording: Recording) -> Iterator[tuple[str, str]]:
    elapsed_ns = max(1, recording.elapsed_ns)
    inside_ns = sum(calls.total_ns for session in recording.sessions for calls in session.calls)
    creation_ns = sum(s.creation_ns for s in recording.sessions if not s.inherited)
    yield (
        "time",
        (
            f"{duration(elapsed_ns)}: {whole_percent(inside_ns / elapsed_ns)} in calls and "
            f"{whole_percent(creation_ns / elapsed_ns)} in creating sessions, summed over threads; "
            f"{duration(recording.cpu_ns)} of CPU time"
        ),
    )
    own_ns = sum(process.recorder_ns for process in recording.processes)
    n = len(recording.processes)
    summed = f", summed over {n} processes" if n > 1 else ""
    yield "recorder", f"{percent(own_ns / elapsed_ns)} of the recorded time{summed}"
    busy = (
        ""
        if recording.busy_ratio is None
        else f", {whole_percent(recording.busy_ratio)} busy while recording"
    )
    quota = "" if recording.cpu_quota is None else f", a quota of {recording.cpu_quota:g}"
    yield "machine", f"{counted(recording.logical_cpus, 'CPU')}{quota}{busy}"
    versions = dict.fromkeys(process.onnxruntime for process in recording.processes)
    yield "ONNX Runtime", ", ".join(versions)
    ended = "" if recording.ended_by == "program" else f", ended by {recording.ended_by}"
    yield "exit code", f"{recording.code}{ended}"
    lost = sum(process.lost_events for process in recording.processes)
    if lost:
        yield "incomplete", f"{lost:,} events were beyond the size limits"
    for process in recording.processes:
        if process.stopped:
            yield "incomplete", process.stopped


def _command(recording: Recording) -> str:
    return shorten(shlex.join(map(operand, recording.command)), 60)


def _build(result: RecordResult) -> str:
    recording = result.recording
    versions = dict.fromkeys(process.onnxruntime for process in recording.processes) if recording else {}
    return f"onnxruntime {', '.join(versions)}" if versions else ""


STORED = StoredKind(result=RecordResult, document=document, headline=headline, build=_build)
