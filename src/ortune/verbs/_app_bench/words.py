"""Text and document of ``ortune bench`` on a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortune.inputs.played import IDLE_NS, ReplayPart
from ortune.printable import operand
from ortune.records import Envelope, Estimate, LoadFigures, Recording, Runtime, TailEstimate
from ortune.show.document import Block, Cell, Code, Column, Document, Line, Pairs, stopped, table
from ortune.show.numbers import counted, duration
from ortune.show.stored_kind import StoredKind
from ortune.stats.processes import LEAST_PROCESSES
from ortune.verbs._app_bench.result import AppBenchResult, PlayedPart
from ortune.verbs._shared import load_words
from ortune.verbs.bench.words import memory, tail_name, time

STOPPED = "stopped before the first play was done; there is no result"


def played_by(recording: Recording, runtime: Runtime) -> list[str]:
    """Return notes if the replay uses a different ONNX Runtime or language from the program, or an empty list."""
    versions = sorted({process.onnxruntime for process in recording.processes if process.onnxruntime})
    version = runtime.ort_version if runtime.node is None else runtime.node.version
    if versions in ([], [version]) and (recording.is_python or runtime.node is not None):
        return []
    elsewhere = "" if recording.is_python else " in a program that is not Python"
    had = f"ONNX Runtime {', '.join(versions)}{elsewhere}"
    where = " in Python" if runtime.node is None else ""
    said = f"recorded with {had}, and played with {runtime.build}{where}"
    in_node = runtime.node is None and recording.node_release
    return [said, "--runtime node plays it in Node.js"] if in_node else [said]


def player(runtime: Runtime) -> str:
    """Return the ONNX Runtime build that plays a recording, with the Python version unless Node.js plays it."""
    return runtime.build if runtime.node else f"{runtime.build}, Python {runtime.python_version}"


def missing(models: Sequence[str]) -> Iterator[str]:
    """Yield a note that names the models that were not found, whose sessions are therefore not played."""
    if models:
        yield f"sessions of {', '.join(models)} are left out: pass the file with --models"


def plan(part: PlayedPart, arrival: str = "", rate_per_s: float | None = None) -> str:
    """Return a sentence that describes the part of the recording that is played.

    Args:
        part: The part.
        arrival: The kind of arrivals; "" if each call follows the one before it.
        rate_per_s: Mean rate of the calls; None if it is unknown.
    """
    at = f" at {load_words.at_rate(rate_per_s, arrival)}" if rate_per_s is not None else ""
    return (
        f"playing {counted(part.calls, 'call')} of {counted(part.sessions, 'session')} in "
        f"{counted(part.processes, 'process', 'processes')}{at}: {duration(part.span_ns)}"
        f"{'' if arrival else ' as recorded'}"
    )


def left_out(played: ReplayPart) -> Iterator[str]:
    """Yield notes about the calls and idle times that are not played."""
    calls = sum(step.do == "call" for script in played.scripts for step in script.steps)
    if calls < played.of_calls:
        yield f"{calls:,} of {played.of_calls:,} recorded calls are played; a longer --budget plays more"
    if played.turns > 1:
        yield f"the recorded calls are played {played.turns:,} times in succession, which gives the queue time to build"
    if played.without_shapes:
        yield f"{played.without_shapes:,} calls have no known shapes and are left out"
    if played.cut_ns:
        yield (
            f"{duration(played.cut_ns)} without any call is left out: gaps of the whole application are played as "
            f"{IDLE_NS / 1e6:.0f} ms at most"
        )


def few(n: int) -> list[str]:
    """Return a note if `n` plays are too few for confidence intervals, or an empty list."""
    if n >= LEAST_PROCESSES:
        return []
    return [f"{n} {'play' if n == 1 else 'plays'} fit in the budget, so no figure has an interval"]


def headline(result: AppBenchResult) -> str:
    """Return the headline: the result in one sentence."""
    cpu, _ = time(result.cpu_ns)
    if result.load is not None:
        return f"{result.label}: {_at_given_times(result, result.load, cpu)}"
    spent, interval = time(result.in_ort_ns)
    creating = result.creating_ns.value / result.in_ort_ns.value
    share = f", {100 * creating:.0f} % of it creating sessions" if creating >= 0.01 else ""
    how = interval if result.in_ort_ns.single else f"95 % interval {interval}"
    calls = counted(result.played.calls, "call")
    return f"{result.label}: {calls} take {spent} in ONNX Runtime ({how}){share}; {cpu} of CPU time"


def _at_given_times(result: AppBenchResult, load: LoadFigures, cpu: str) -> str:
    """Return the latency of calls at given times, or why there is none, as a sentence without a subject."""
    if result.verdict == "generator":
        return load_words.generator_late(result.rate_per_s, load)
    if result.verdict == "overloaded":
        return (
            f"cannot serve {result.rate_per_s:.4g}/s: its busiest thread allows {load.served_per_s:.3g} "
            f"calls/s at most, so the queue keeps growing; use a lower --rate"
        )
    assert result.latency_ns is not None
    value, interval = time(result.latency_ns)
    how = interval if result.latency_ns.single else f"95 % interval {interval}"
    at = "" if result.rate_per_s is None else f" at {load_words.at_rate(result.rate_per_s, result.arrival)}"
    return f"p50 {value} a call ({how}); {counted(result.played.calls, 'call')}{at}, {cpu} of CPU time"


def document(envelope: Envelope[AppBenchResult]) -> Document:
    """Return the document: the times and memory of the whole application, and a row for each model."""
    result = envelope.result
    columns = [Column("", "label"), Column(""), Column("95 % interval", "text")]
    blocks: list[Block] = [
        *stopped(envelope),
        Line(result.headline, "strong"),
        table(columns, list(figures(result))),
        *([_models(result)] if result.verdict == "measured" else []),
        Pairs(rows=[("note", note) for note in result.notes]),
        Code(title="next", lines=[f"ortune tune {operand(result.label)}"], commands=True),
    ]
    return Document(
        title=f"ortune bench: {result.label}", blocks=blocks, support=[Pairs(rows=list(_details(result)))]
    )


def figures(result: AppBenchResult) -> Iterator[tuple[str, str, str]]:
    """Yield a row (name, value, interval or explanation) for each figure that the verdict leaves."""
    if result.load is not None:
        if result.latency_ns is not None and result.verdict == "measured":
            yield "p50", *time(result.latency_ns)
            yield from map(tail_row, result.tails)
        yield from load_words.rows(result.load, "the busiest thread")
    if result.verdict != "generator":
        yield "time in ONNX Runtime", *time(result.in_ort_ns)
        if _created(result):
            yield "creating sessions", *time(result.creating_ns)
        yield "from start to end", *time(result.wall_ns)
    yield "CPU time", *time(result.cpu_ns)
    yield "peak memory", *memory(result.peak_bytes)


def _created(result: AppBenchResult) -> bool:
    """Return whether a play creates sessions."""
    return any(row.sessions for row in result.rows)


def _models(result: AppBenchResult) -> Block:
    created = _created(result)
    heads = ("", *(("sessions", "a creation") if created else ()), "calls", "p50 a call", "p95 a call")
    columns = [Column(head, "text") for head in heads]
    rows: list[list[Cell | str]] = []
    for row in result.rows:
        creations: list[Cell | str] = [f"{row.sessions:,}", _cell(row.create_ns)] if created else []
        calls: list[Cell | str] = [f"{row.calls:,}", _cell(row.call_ns), _cell(row.call_p95_ns)]
        rows.append([row.model, *creations, *calls])
    return table(columns, rows, dense=True)


def tail_row(item: TailEstimate) -> tuple[str, str, str]:
    """Return the row of a quantile, or how many calls it needs."""
    if item.latency_ns is None:
        return tail_name(item), "too few samples", f"{item.needed:,} calls needed, {item.made:,} were made"
    return tail_name(item), *time(item.latency_ns)


def _cell(item: Estimate | None) -> Cell:
    if item is None:
        return Cell("-")
    value, span = time(item)
    return Cell(value, span.partition(":")[0].replace(f" {value.rpartition(' ')[2]}", ""))


def _details(result: AppBenchResult) -> Iterator[tuple[str, str]]:
    part = result.played
    played = plan(part, result.arrival, result.rate_per_s).removeprefix("playing ")
    yield "played", f"{played}; {counted(len(result.plays), 'time')}"
    mode = (
        "calls start at given times, each in its recorded thread"
        if part.open_loop
        else "each call follows the one before it after its gap"
    )
    yield "arrivals", mode
    yield "started late", f"{duration(result.late_ns)} on average"
    yield "replay", f"{100 * result.own_cpu_share:.1f} % of the CPU time is its own"
    if result.most_threads is not None:
        yield "threads", f"{result.most_threads:,}"
    yield "runtime", player(result.runtime)
    yield "again", result.reproduce


STORED = StoredKind(
    result=AppBenchResult,
    document=document,
    headline=lambda result: result.headline,
    build=lambda result: result.runtime.build,
)
