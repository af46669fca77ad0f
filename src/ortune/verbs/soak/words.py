"""Text and document of ``ortune soak``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ortune.records import Envelope, GrowthFigure, SoakChange
from ortune.search.plan_edits import merge
from ortune.show import finding_words
from ortune.show.answer_commands import compare_line, lines, report_line
from ortune.show.document import Block, Cell, Code, Column, Document, Line, Pairs, Table, Tone, stopped, table
from ortune.show.numbers import counted, enough, memory, shorten, shorten_end, significant, waiting
from ortune.show.stored_kind import StoredKind
from ortune.verbs.soak.result import AppProcessRow, LimitForecast, SoakResult

STOPPED = "stopped before the first call; there is no result"
NO_EXPERIMENTS = "causes were not tested: only one process fits in memory"
AS_IS, EXPERIMENT = "as-is-", "experiment-"
"""Prefixes of the names of processes: unchanged model, changed model."""
PAGE_NOTE = (
    "Memory of each process and its children, without pages of files: before loading, between turns of calls, "
    "and after the sessions are deleted."
)
IN_PAGE_NOTE = (
    "Memory of each page before loading, between turns of calls, and after the session is released: JavaScript's heap "
    "without garbage, WebAssembly memory, and buffers of the GPU."
)
CHANGES_NOTE = (
    "Memory between turns of calls: one process for each change, and an unchanged one next to them."
)
TONES: dict[str, Tone] = {"flat": "good", "bounded": "good", "undecided": "unsure"}
CHANGES: dict[SoakChange, str] = {
    "as-is": "unchanged",
    "same-values": "same input values in each call",
    "one-size": "one input size, the one that added most",
    "kept-sessions": "sessions kept",
    "no-arena": "arena off",
    "exact-arena": "arena grows as requested",
    "arena-shrinkage": "arena shrinks after each run",
    "no-kleidiai": "KleidiAI off",
    "no-pattern": "memory pattern off",
    "no-prepacking": "prepacking off",
    "one-thread": "one thread",
    "trim": "malloc_trim after each turn",
    "allocator": "another allocator",
}
_WHY = {
    "few-calls": "too few calls",
    "steps": "memory rises in steps that are too rare to tell growth from a limit",
    "slowing": "memory grows, but more and more slowly",
    "noise": "memory varies too much from turn to turn",
    "": "too few calls",
}


_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def size(n_bytes: float, like: float | None = None) -> str:
    """Format bytes with three digits, in a unit that suits them or the size ``like``: "1.02 MiB", "-312 B"."""
    largest = abs(n_bytes if like is None else like)
    scale, unit = next((each for each in _UNITS if largest >= each[0]), _UNITS[-1])
    sign, value = ("-" if n_bytes < 0 else ""), abs(n_bytes) / scale
    return f"{sign}{significant(value) if scale > 1 else f'{value:.0f}'} {unit}"


def rate(figure: GrowthFigure) -> str:
    """Format growth with its interval: "1.02 MiB per 1,000 calls (95 % interval 0.99 MiB to 1.05 MiB)"."""
    if figure.per_session is not None and figure.per_1000_calls:
        factor = figure.per_session / figure.per_1000_calls
        unit = "session"
    else:
        factor, unit = 1.0, "1,000 calls"
    value = factor * figure.per_1000_calls
    ends = [None if end is None else size(factor * end, value) for end in (figure.low, figure.high)]
    interval = " to ".join("unbounded" if end is None else end for end in ends)
    return f"{size(value)} per {unit} (95 % interval {interval})"


def most(figure: GrowthFigure | None) -> str:
    """Return a phrase on the upper limit of the growth of flat or bounded memory; "" if unknown."""
    if figure is None or figure.high is None:
        return ""
    if figure.per_session is not None and figure.per_1000_calls:
        factor = figure.per_session / figure.per_1000_calls
        return f", at most +{size(factor * figure.high)} per session (95 %)"
    return f", at most +{size(figure.high)} per 1,000 calls (95 %)"


def arm_name(arm: str) -> str:
    """Return the name of an experiment's process as users see it: "arena off", "unchanged (2)"."""
    change = arm.removeprefix(EXPERIMENT)
    number = change.removeprefix("as-is-")
    known = {str(each): text for each, text in CHANGES.items()}
    return known.get(change, f"{CHANGES['as-is']} ({number})")


def calls(n: int) -> str:
    """Format a number of calls: "1 call", "1,200 calls"."""
    return counted(n, "call")


def causes(n: int) -> str:
    """Return a sentence that says that memory rises and ``n`` changes are tested."""
    return f"memory rises; testing {counted(n, 'change')} next to an unchanged process"


def headline(result: SoakResult) -> str:
    """Return the verdict in one sentence."""
    return f"{result.side.label}: {_verdict(result)}"


def _verdict(result: SoakResult | AppProcessRow) -> str:
    held, rise = memory(result.held_bytes), size(result.held_bytes - result.first_bytes)
    figure = result.growth
    match result.verdict:
        case "killed":
            assert isinstance(result, SoakResult) and result.killed is not None
            kill = result.killed
            where = "" if kill.limit_bytes is None else f" at {memory(kill.limit_bytes)}"
            by = f", by size {kill.size}" if kill.size else ""
            return f"killed{where} after {counted(kill.calls, 'call')}{by}"
        case "growing":
            assert figure is not None
            what = "memory in use" if figure.of == "used" else "memory"
            return f"{what} grows by {rate(figure)}"
        case "bounded":
            by = f", most of it at size {result.raised_by}" if result.raised_by else ""
            return f"memory is bounded: it rises by {rise}{by}, then stays at {held}{most(figure)}"
        case "fragmented":
            returned = size(result.returned_bytes or 0.0)
            return (
                f"memory is fragmented: {returned} of {held} are free, and malloc_trim returns them to the system; "
                f"{rise} were added since the first call"
            )
        case "flat":
            return f"memory is flat: {held} held{most(figure)}"
        case _:
            why = _WHY[figure.why if figure is not None else "few-calls"]
            more = "" if result.enough_budget_s is None else f"; rerun with {enough(result.enough_budget_s)}"
            return f"inconclusive: {why}{more}"


def forecast(found: LimitForecast) -> str:
    """Return a phrase on when a limit is passed: "passes 2.00 GiB after 31 h (95 % interval 24 h to 40 h)"."""
    low = "unbounded" if found.low_s is None else waiting(found.low_s)
    high = "unbounded" if found.high_s is None else waiting(found.high_s)
    interval = f"95 % interval {low} to {high}"
    return f"passes {memory(found.limit_bytes)} after {waiting(found.after_s)} ({interval})"


def _untested(envelope: Envelope[SoakResult]) -> list[Line]:
    """Return a line on why causes were not tested; empty if memory does not rise or causes were tested."""
    result = envelope.result
    rises = result.verdict in ("growing", "bounded", "fragmented")
    if not rises or result.experiments or envelope.status != "ok":
        return []
    if NO_EXPERIMENTS in result.notes:
        return [Line(NO_EXPERIMENTS, "look")]
    return [
        Line(
            f"causes were not tested: the verdict took the whole budget; rerun with {enough(2 * result.elapsed_s)}",
            "look",
        )
    ]


def _per_s(calls_per_s: float) -> str:
    """Format a rate with three digits: "17.3 calls/s", "5,150 calls/s"."""
    digits = f"{calls_per_s:.3g}" if calls_per_s < 1000 else f"{float(f'{calls_per_s:.3g}'):,.0f}"
    return f"{digits} calls/s"


def document(envelope: Envelope[SoakResult]) -> Document:
    """Return the document of a soak: the verdict, its metrics, tested changes, and the memory that each size added."""
    result = envelope.result
    assert result is not None
    blocks = [*stopped(envelope), Line(headline(result), TONES.get(result.verdict, "bad"))]
    if result.forecast is not None:
        blocks.append(Line(f"{forecast(result.forecast)} at {_per_s(result.calls_per_s)}", "bad"))
    rows = [
        (size_row.size, f"{size_row.calls:,}", _size_or_nothing(size_row.raised_bytes))
        for size_row in result.sizes
    ]
    sizes = [Column("size", "text"), Column("calls"), Column("memory added")]
    return Document(
        title=f"ortune soak: {result.side.label}",
        blocks=[
            *blocks,
            *(Line(f"{found.sentence()}{finding_words.places(found)}", "look") for found in result.findings),
            *_untested(envelope),
            _processes(result),
            Pairs(rows=list(_figures(result))),
            *_experiments(result),
            _nodes(result),
            *([table(sizes, [tuple(map(Cell, row)) for row in rows])] if len(rows) > 1 else []),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        support=[Pairs(rows=list(_support(envelope)))],
    )


def played_on(rounds: int) -> str:
    """Return a text on how often the steps of a recorded application were replayed."""
    return f"the recorded steps {counted(rounds, 'time')} in each process, without the times between them"


def _processes(result: SoakResult) -> Table:
    """Return a table of a recorded application's processes; no rows if there are fewer than two processes."""
    columns = [Column("process", "text"), Column("calls"), Column("sessions"), Column("", "text")]
    rows = result.application.processes if result.application is not None else ()
    if len(rows) < 2:
        return table(columns, [])
    return table(
        columns,
        [
            (
                f"{row.process}",
                f"{row.calls:,}",
                f"{row.sessions:,}",
                "killed" if row.verdict == "killed" else _verdict(row),
            )
            for row in rows
        ],
    )


def _experiments(result: SoakResult) -> list[Block]:
    """Return a list with the table of the tested changes; empty if no change was tested."""
    if not result.experiments:
        return []
    columns = [
        Column("change", "text"),
        Column("memory added", "text"),
        Column("not added"),
        Column("latency", "text"),
    ]
    rows = []
    for each in result.experiments:
        name = Cell(CHANGES[each.change], each.plan.describe() if each.plan is not None else "")
        if each.failed:
            rows.append((name, Cell("failed"), Cell(""), Cell(shorten_end(each.failed, 40))))
            continue
        added = f"{size(each.rise_bytes)}, unchanged {size(each.as_is_rise_bytes)}"
        cost = ""
        if each.latency_ratio is not None:
            cost = f"{each.latency_ratio:.2f}x ({each.latency_low:.2f}-{each.latency_high:.2f}x)"
        share = f"{100 * min(1.0, max(0.0, each.explained)):.0f} %"
        rows.append((name, Cell(added), Cell(share), Cell(cost)))
    since = "after the first calls" if result.verdict == "growing" else "since the first call"
    title = f"memory added {since}, each change in one process, next to an unchanged one with the same calls"
    return [table(columns, rows, title=title, notes=["intervals: 95 %, over turns of one process"])]


def _nodes(result: SoakResult) -> Table:
    """Return a table of the nodes that allocate most."""
    columns = [Column("node", "text"), Column("outputs"), Column("temporary"), Column("weights")]
    rows = [
        (
            shorten(node.name, 60),
            _size_or_nothing(node.output_bytes),
            _size_or_nothing(node.temporary_bytes),
            _size_or_nothing(node.initializer_bytes),
        )
        for node in result.nodes
        if node.output_bytes or node.temporary_bytes
    ]
    title = "largest memory of a node in one call, as ONNX Runtime records it"
    return table(columns, rows, title=title)


def _size_or_nothing(n_bytes: float) -> str:
    return size(n_bytes) if n_bytes else "nothing"


def _figures(result: SoakResult) -> Iterator[tuple[str, str]]:
    if result.base_bytes is not None:
        yield "before loading", memory(result.base_bytes)
    yield "after the first call", memory(result.first_bytes)
    children = result.children_bytes
    of_them = f", {memory(children)} of it in child processes" if children else ""
    yield "after the last call", f"{memory(result.held_bytes)}{of_them}"
    yield from _page_parts(result)
    if result.returned_bytes is not None:
        yield "malloc_trim returns", size(max(0.0, result.returned_bytes))
    if result.released_bytes is not None:
        yield "after release", memory(result.released_bytes)


def _page_parts(result: SoakResult) -> Iterator[tuple[str, str]]:
    """Yield rows on the parts of a page's memory in the first process, after the last and the first call."""
    points = [point for point in result.points if point.arm.startswith(AS_IS) and point.calls]
    own = [point for point in points if point.arm == points[0].arm]
    if not own or own[-1].heap_bytes is None:
        return
    first, last = own[0], own[-1]
    yield "JavaScript heap", f"{_growth(first.heap_bytes, last.heap_bytes)}, without garbage"
    yield "WebAssembly memory", _growth(first.wasm_bytes, last.wasm_bytes)
    if last.gpu_bytes:
        buffers = counted(last.gpu_buffers or 0, "buffer")
        yield (
            "GPU buffers",
            f"{_growth(first.gpu_bytes, last.gpu_bytes)}; {buffers}, {first.gpu_buffers or 0} after the first call",
        )


def _growth(first: int | None, last: int | None) -> str:
    return f"{size(last or 0)}, {size(first or 0)} after the first call"


def _support(envelope: Envelope[SoakResult]) -> Iterator[tuple[str, str]]:
    result = envelope.result
    assert result is not None
    n = len({point.arm for point in result.points if point.arm.startswith(AS_IS)})
    processes = counted(n, "process", "processes")
    each = f"{counted(result.calls, 'call')} each" if n > 1 else counted(result.calls, "call")
    yield "measured", f"{processes}, {each}; {result.load}"
    if result.recreate:
        yield "sessions", f"created again after every {counted(result.recreate, 'call')}"
    fresh = [name for name in result.fresh if name not in result.fixed]
    yield "new values in each call", ", ".join(fresh) or "no input"
    if result.fixed:
        yield "same values in each call", ", ".join(result.fixed)
    yield "runtime", result.side.runtime.build
    for note in result.notes:
        yield "note", note
    for process in result.processes:
        if process.failure is not None:
            yield "ended early", f"{process.arm}: {process.failure.what}"
    yield "again", result.reproduce


def _next(envelope: Envelope[SoakResult]) -> list[str]:
    """Return the commands that confirm the first plan of a finding, and show the stored result."""
    result = envelope.result
    assert result is not None
    plan = next((found.plan for found in result.findings if found.plan is not None), None)
    confirm: list[str] = []
    if plan is not None and result.application is None:
        changed = msgspec.structs.replace(result.side, plan=merge(result.side.plan, plan))
        confirm = compare_line(
            result.side,
            changed,
            envelope.workload,
            "idle memory",
            result.notes,
            reproduce=result.reproduce,
        )
    return lines(confirm, report_line(result.session, envelope.store))


STORED = StoredKind(result=SoakResult, document=document, headline=headline)
