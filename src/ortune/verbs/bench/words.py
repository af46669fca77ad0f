"""A benchmark in words: every number has its interval, and no more digits than the interval supports."""

from __future__ import annotations

import math

from ortune.printable import amount
from ortune.records import BenchRow, Envelope, Estimate, Host, Plan, TailEstimate
from ortune.show import finding_words, memory_words, transfer_words
from ortune.show.answer_commands import lines, only_given, profile_line, report_line, tune_line
from ortune.show.checks import checks
from ortune.show.document import Block, Cell, Code, Column, Document, Line, Pairs, Table, stopped, table
from ortune.show.numbers import counted, duration
from ortune.show.numbers import memory as gibibytes
from ortune.show.placement_words import placed_or_why
from ortune.show.side_rows import setting
from ortune.show.sides import FIRST_LOAD
from ortune.show.stored_kind import StoredKind
from ortune.verbs.bench import arrival_words, note_words
from ortune.verbs.bench.result import BenchResult

MOST_DIGITS = 4
SINGLE = "single observation"
IN_TURN = "peak memory, sizes in turn"
TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (1.0, "bytes"))


def headline(row: BenchRow, result: BenchResult) -> str:
    """Return the result for one shape in one sentence."""
    if finding_words.functional_only(result.findings):
        return functional(row, result)
    shape = f" at {row.case}" if row.case != "default" else ""
    if arrival_words.no_latency(row, result):
        return f"{result.side.label}{shape}: {arrival_words.instead(row, result)}"
    value, interval = time(row.median_ns)
    rate, _ = throughput(row.throughput_per_s)
    how = f"95 % interval {interval}" if not row.median_ns.single else interval
    return f"{result.side.label}{shape}: p50 {value} a request ({how}); {rate}, {result.load}"


def functional(row: BenchRow, result: BenchResult) -> str:
    """Return a sentence that says that the model ran on an emulated device, without times, which would not be real."""
    shape = f" at {row.case}" if row.case != "default" else ""
    ran = f"{counted(row.n_requests, 'request')} ran"
    return f"{result.side.label}{shape}: functional only; {ran} on an emulated device, so no speed is shown"


def gave_up(case: str, good: int, wanted: int | None, failures: int) -> str:
    """Return a sentence that says that a shape was given up after ``failures`` failed processes in a row."""
    name, of = f"{case}: " if case else "", f" of {wanted}" if wanted else ""
    return f"{name}stopped after {good}{of} processes: {failures} in a row failed"


def figures(row: BenchRow, result: BenchResult) -> list[tuple[str, str, str]]:
    """Return a row (name, value, interval or why there is none) for each metric of one shape."""
    rows = [] if arrival_words.no_latency(row, result) else _latency(row, result)
    rows += arrival_words.rows(row, result)
    rows += [("event-loop delay p99", *time(row.event_loop_ns))] if row.event_loop_ns else []
    rows.append(("CPU time per request", *cpu_time(row.cpu_per_run_ns)))
    rows += peak_memory(row, result)
    rows.append(("load time", *time(row.load_ns)))
    if row.first_load_ns is not None:
        rows.append((FIRST_LOAD, duration(row.first_load_ns), SINGLE))
    rows.append(("first run", *time(row.first_run_ns)))
    value, interval = throughput(row.throughput_per_s)
    return [*rows, ("throughput", value, f"{interval}{arrival_words.by_gap(row, result)}")]


def _latency(row: BenchRow, result: BenchResult) -> list[tuple[str, str, str]]:
    of = f", of {counted(row.n_requests, 'request')}"
    ends = [(name, value, said + of * (said == SINGLE)) for name, value, said in extremes(row)]
    return [("p50", *time(row.median_ns)), *(tail(t, result) for t in shown_tails([row])[0]), *ends]


def extremes(row: BenchRow) -> list[tuple[str, str, str]]:
    """Return rows (name, value, interval) of the mean, the fastest and the slowest request, as far as known."""
    rows = [("mean", *time(row.mean_ns))] if row.mean_ns is not None else []
    for name, ns in (("min", row.min_ns), ("max", row.max_ns)):
        if ns is not None:
            # As few digits as above, or a single request would exceed its own maximum.
            shown = time(Estimate(value=ns, single=True))[0] if row.median_ns.single else duration(ns)
            rows.append((name, shown, SINGLE))
    return rows


def shown_tails(rows: list[BenchRow]) -> list[tuple[TailEstimate, ...]]:
    """Return the tail quantiles of each row; p99.9 only if a row has enough requests for it."""
    rare = any(t.latency_ns is not None for row in rows for t in row.tails if t.quantile > 0.99)
    return [tuple(t for t in row.tails if rare or t.quantile <= 0.99) for row in rows]


def tail(item: TailEstimate, result: BenchResult) -> tuple[str, str, str]:
    """Return the row (name, value, interval) of a tail quantile."""
    name = tail_name(item)
    if item.latency_ns is None:
        return (
            name,
            "too few samples",
            f"{item.needed:,} requests needed, {item.made:,} {'was' if item.made == 1 else 'were'} made",
        )
    value, interval = time(item.latency_ns)
    why_not = no_slo(result) if item.quantile >= 0.99 else ""
    return name, value, f"{interval}; {why_not}" if why_not else interval


def tail_name(item: TailEstimate) -> str:
    """Return the name of a quantile: p99, p99.9."""
    return f"p{100 * item.quantile:.4g}"


def no_slo(result: BenchResult) -> str:
    """Return a note that a tail is not valid for an SLO, because no request waited in a queue; "" for an open loop."""
    if result.arrival:
        return ""
    load = "no load" if result.load.startswith("one caller") else "closed loop"
    return f"{load}: not valid for an SLO"


def time(item: Estimate) -> tuple[str, str]:
    """Format a duration and its interval: ("9.87 ms", "9.81 to 9.93 ms")."""
    return _scaled(item, TIMES)


def cpu_time(item: Estimate) -> tuple[str, str]:
    """Format the CPU time of a run and its interval; a remote browser does not report CPU time."""
    return time(item) if item.value else ("not known", "not reported by the browser")


def memory(item: Estimate | None) -> tuple[str, str]:
    """Format a memory size and its interval; None is "not known"."""
    return ("not known", "not available on this system") if item is None else _scaled(item, SIZES)


def peak_memory(row: BenchRow, result: BenchResult) -> list[tuple[str, str, str]]:
    """Return rows on memory: the peak of the timed processes, the peak over several sizes, and memory in use."""
    value, interval = memory(row.peak_bytes)
    peak = result.peak_in_turn
    if peak is None:
        return [("peak memory", value, interval), *_memory_rows(row)]
    if peak.peak_bytes is None:
        return [("peak memory", value, f"{interval}; {memory_words.peak_remark(peak)}"), *_memory_rows(row)]
    about = f"{SINGLE}, {memory_words.sizes(peak)}{memory_words.largest(peak)}"
    in_turn = (IN_TURN, gibibytes(peak.peak_bytes), about)
    return [("peak memory", value, interval), in_turn, *_memory_rows(row)]


def _memory_rows(row: BenchRow) -> list[tuple[str, str, str]]:
    """Return rows on the memory in use between requests and after the session was released, as far as known."""
    rows = []
    if row.idle_bytes is not None:
        value, interval = memory(row.idle_bytes)
        own = row.idle_anonymous_bytes
        files = f"; {gibibytes(row.idle_bytes.value - own.value)} of it are pages of files" if own else ""
        rows.append(("idle memory", value, f"{interval}{files}"))
    if row.released_bytes is not None:
        value, interval = memory(row.released_bytes)
        trimmed = row.trimmed_bytes
        after = f"; {gibibytes(trimmed.value)} after malloc_trim" if trimmed else ""
        rows.append(("memory after release", value, f"{interval}{after}"))
    return rows


def throughput(item: Estimate) -> tuple[str, str]:
    """Format a number of requests per second and its interval."""
    return _scaled(item, ((1.0, "requests/s"),))


def _scaled(item: Estimate, units: tuple[tuple[float, str], ...]) -> tuple[str, str]:
    size, unit = next((u for u in units if abs(item.value) >= u[0]), units[-1])
    value = item.value / size
    low = None if item.low is None else item.low / size
    high = None if item.high is None else item.high / size
    decimals = supported_decimals(value, low, high)
    shown = f"{number(value, decimals)} {unit}"
    if item.single:
        return shown, SINGLE
    if low is None and high is None:
        return shown, "no bound: too few processes for this much variation"
    if low is None or high is None:
        bound, more = (low, "more") if high is None else (high, "less")
        assert bound is not None
        return shown, f"{number(_outward(bound, decimals, up=more == 'less'), decimals)} {unit} or {more}"
    ends = (
        number(_outward(low, decimals, up=False), decimals),
        number(_outward(high, decimals, up=True), decimals),
    )
    return shown, f"{ends[0]} to {ends[1]} {unit}"


def supported_decimals(value: float, low: float | None, high: float | None) -> int:
    """Return the number of decimals that an interval supports; negative numbers count places before the point.

    The last digit is worth at most half the width of the interval and at least a tenth of this half. The value has at
    most four digits, and value and ends at least one. A single observation has two digits.
    """
    size = math.floor(math.log10(abs(value))) if value else 0
    ends = [abs(end - value) for end in (low, high) if end is not None]
    if not ends:
        return 1 - size
    half = sum(ends) / len(ends)
    if half == 0:
        return MOST_DIGITS - 2 - size
    least = min([size, *(math.floor(math.log10(end)) for end in (low, high) if end)])
    return max(-least, min(-math.floor(math.log10(half)), MOST_DIGITS - 1 - size))


def number(value: float, decimals: int) -> str:
    """Format a number with ``decimals`` decimals; negative decimals round to tens, hundreds and so on."""
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def _outward(value: float, decimals: int, *, up: bool) -> float:
    """Round a bound up or down, so that the printed interval contains the exact interval, but for rounding errors."""
    step = 10.0**decimals
    near = round(value * step)
    if abs(value * step - near) < 1e-6 * max(1.0, abs(near)):
        return near / step
    return (math.ceil(value * step) if up else math.floor(value * step)) / step


def details(result: BenchResult, host: Host | None) -> list[tuple[str, str]]:
    """Return rows (name, text) with the details behind the metrics."""
    side, runtime = result.side, result.side.runtime
    counts = [f"{row.n_processes} processes, {row.n_requests:,} requests" for row in result.rows]
    processes = counts[0]
    if len(result.rows) > 1:
        named = [f"{row.case} {count}" for row, count in zip(result.rows, counts, strict=True)]
        processes = f"each shape in its own processes: {'; '.join(named)}"
    plan = "ONNX Runtime's default" if side.plan == Plan() else side.plan.describe()
    rows = [("plan", plan), ("measured", f"{processes}; {result.load}")]
    rows.append(("runtime", f"{runtime.build}, Python {runtime.python_version}"))
    if host is not None:
        limit = f", {gibibytes(host.memory_limit_bytes or host.memory_bytes)}"
        rows.append(("machine", f"{host.cpu}, {host.effective_cpus} effective CPUs{limit}"))
    rows.append(("load", note_words.conditions([process.sensors for process in result.processes])))
    rows += [("outputs", "; ".join(row.outputs)) for row in result.rows[:1] if row.outputs]
    rows += [("placement", text) for text in placed_or_why(side.placement, side.plan, runtime.build)]
    threads = f"{result.threads} added by each session, besides the calling thread"
    rows += [("threads", threads)] if result.threads is not None else []
    rows += [("note", text) for text in result.notes]
    rows += [("failed", f"one process ({f.reason}): {f.what}") for f in result.failures]
    rows.append(("again", result.reproduce))
    return [(name, text) for name, text in rows if text]


def document(envelope: Envelope[BenchResult]) -> Document:
    """Return the document of a benchmark: the headlines, metrics with intervals, and the evidence for ``--verbose``."""
    result = envelope.result
    failed = f"{amount(len(result.failures), 'process', 'processes')} failed (-v)" if result.failures else ""
    return Document(
        title=f"ortune {envelope.schema.split('/')[1]}: {result.side.label}",
        blocks=[
            *stopped(envelope),
            *(Line(headline(row, result), "strong") for row in result.rows),
            *_measured(result),
            *(
                Line(f"{f.sentence()}{finding_words.places(f)}", "look")
                for f in result.findings
                if not finding_words.about_measurement(f)
            ),
            Pairs(
                rows=[*_transfer(result), *([("with", _plan(result))] if result.side.plan != Plan() else [])]
            ),
            *checks((), None, result.findings, *result.remarks, failed),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        support=[Pairs(rows=details(result, envelope.host))],
    )


def _transfer(result: BenchResult) -> list[tuple[str, str]]:
    """Return rows on whether times include transfers to the device; empty if no times are shown."""
    emulated = finding_words.functional_only(result.findings)
    return [] if emulated else transfer_words.included([result.side.plan])


def _plan(result: BenchResult) -> str:
    """Return the plan in words, with how each setting was verified."""
    read = {item.knob: setting(item, result.side.plan) for item in result.read_back}
    node = [result.side.runtime.build] if result.side.plan.is_node else []
    return "; ".join([*(read.values() or [result.side.plan.describe()]), *node])


def _next(envelope: Envelope[BenchResult]) -> list[str]:
    """Return the next commands: to tune, to profile, and to show the stored details."""
    result, work = envelope.result, envelope.workload
    said = work and only_given(work)
    if finding_words.functional_only(result.findings):
        return lines(report_line(result.session, envelope.store))
    return lines(
        tune_line(result.side, said, "", result.notes) if result.side.plan == Plan() else (),
        profile_line(result.side, work),
        report_line(result.session, envelope.store),
    )


def _measured(result: BenchResult) -> list[Block]:
    """Return the blocks with all metrics; empty for an emulated device."""
    if finding_words.functional_only(result.findings):
        return []
    return _figures(result) if len(result.rows) == 1 else _shapes(result)


def _in_turn(result: BenchResult) -> list[Block]:
    peak = result.peak_in_turn
    return [Line(f"peak memory {memory_words.peak_remark(peak)}", "faint")] if peak is not None else []


def _figures(result: BenchResult) -> list[Block]:
    columns = [Column("", "label"), Column(""), Column("95 % interval", "text")]
    return [table(columns, figures(result.rows[0], result))]


def _shapes(result: BenchResult) -> list[Block]:
    """Return tables with a row per shape: latency and its tails, mean and extremes, further metrics."""
    rows = list(result.rows)
    loads = [_loads(result)] if result.arrivals else []
    known = [row for row in rows if not arrival_words.no_latency(row, result)]
    tails = shown_tails(known)
    latency = [[time(row.median_ns), *map(_tail_cell, t)] for row, t in zip(known, tails, strict=True)]
    ends = [[(value, span) for _, value, span in extremes(row)] for row in known]
    rest = [
        [
            throughput(row.throughput_per_s),
            time(row.load_ns),
            time(row.first_run_ns),
            cpu_time(row.cpu_per_run_ns),
            memory(row.peak_bytes),
        ]
        for row in rows
    ]
    return [
        *([_by_shape(known, ["p50", *(tail_name(t) for t in tails[0])], latency)] if known else []),
        *(
            [_by_shape(known, ["mean", "min", "max"], ends)]
            if known and all(len(e) == 3 for e in ends)
            else []
        ),
        *loads,
        _by_shape(rows, ["throughput", "load time", "first run", "CPU time", "peak memory"], rest),
        *_in_turn(result),
        *([] if result.arrivals else [Line(f"p99 and beyond: {no_slo(result)}", "faint")]),
    ]


def _loads(result: BenchResult) -> Table:
    """Return a table of the load of each shape."""
    by_row = [(row, arrival_words.rows(row, result)) for row in result.rows]
    heads = [Column("", "text"), *(Column(name, "text") for name, _, _ in by_row[0][1])]
    return table(
        heads,
        ([row.case, *(Cell(value, span) for _, value, span in cells)] for row, cells in by_row),
        dense=True,
    )


def _tail_cell(item: TailEstimate) -> tuple[str, str]:
    return (
        ("too few samples", f"{item.needed:,} needed") if item.latency_ns is None else time(item.latency_ns)
    )


def _by_shape(rows: list[BenchRow], heads: list[str], values: list[list[tuple[str, str]]]) -> Table:
    """Return a table with intervals below the values, so that six columns fit in 80 characters."""
    columns = [Column("", "text"), *(Column(head, "text") for head in heads)]
    pairs = zip(rows, values, strict=True)
    return table(
        columns, [[row.case, *(cell(*value) for value in of_row)] for row, of_row in pairs], dense=True
    )


def cell(value: str, span: str) -> Cell:
    """Return a value with its interval below it, which does not repeat the unit."""
    return Cell(value, span.partition(":")[0].replace(f" {value.rpartition(' ')[2]}", ""))


def warmed(browser: str, ratio: float | None) -> str:
    """Return a note that compares the last with the first minute in a remote browser by their time ``ratio``."""
    if ratio is None:
        return f"{browser}: ran for less than 2 min, too short to show thermal throttling (use --budget 5m)"
    change = 100 * (ratio - 1)
    how = "slower" if change >= 0 else "faster"
    return f"{browser}: the last minute was {abs(change):.0f} % {how} than the first"


def headlines(result: BenchResult) -> str:
    """Return the headlines of all rows."""
    return "; ".join(headline(row, result) for row in result.rows) or "no shape was measured"


STORED = StoredKind(result=BenchResult, document=document, headline=headlines)
