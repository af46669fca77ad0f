"""A profile in words: the same sentences and cells for the terminal, for Markdown and for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ortune.providers import CPU, short
from ortune.records import (
    CategoryName,
    Envelope,
    GpuRun,
    LayerTime,
    MemoryKind,
    MemoryOwner,
    MemoryProfile,
    PageParts,
    Plan,
    ProfiledNode,
    ProfileResult,
    TraceInfo,
    Transfer,
    fused_with,
)
from ortune.report import difference_words, finding_words
from ortune.report.answer_commands import lines, model_of, told_line
from ortune.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Document,
    Line,
    Pairs,
    Points,
    Table,
    Tone,
    table,
)
from ortune.report.numbers import duration, memory, percent, shorten, three
from ortune.report.placement_words import placed
from ortune.report.profile_tables import CATEGORIES, Unit, apportion, category_words, unit_of

TOP_OPERATORS = 10
TOP_NODES = 10
FEW_NODES, FEW_FINDINGS = 5, 3
"""In the answer; ten stand in what supports it."""
TOP_LAYERS = 6
TOP_OWNERS = 3
LESS = 0.1
"""Share of what slow runs take longer from which on it is said that other parts of them took less."""
NAME = 48
ROUGH_SLOWDOWN = 1.3
SOURCES = {
    "profile": "figures of the allocator",
    "liveness": "estimated from sizes and lifetimes, because the profile has no allocator figures",
}
"""Where figures of memory come from."""
VALUES = "values"
OWNERS: dict[MemoryKind, str] = {
    "value": VALUES,
    "values": VALUES,
    "weights": "weights, as stored",
    "session": "held before the run, such as packed weights",
    "inputs": "inputs",
    "rounding": "the arena's rounding and gaps",
    "planned": "gaps in the block that later runs plan",
    "shared": "buffers that two values share",
    "libraries": "the process before the session",
    "runtime": "ONNX Runtime itself, loading included",
}
"""Who holds memory, in words."""
SLOWDOWN_WORTH_SAYING = 0.03
_WAYS = {"to-device": "to the device", "to-host": "to the host", "on-device": "on the device"}
"""Copies, by where they go."""


def subject(result: ProfileResult) -> str:
    """What was profiled: the model's name, else the trace's file."""
    return result.side.label if result.side else result.trace.path or "profile"


MEASURING_PEAK = "measuring this machine's peak once, about ten seconds"
NOT_MAPPED = "optimised nodes were not mapped to your nodes: no time left in the budget"
PEAK_DOUBTED = "nodes exceed the stored peak of this machine; measuring it again"


def no_time_for_peak(needed_s: float) -> str:
    """That the budget does not hold the measurement of the peak."""
    return f"measuring it takes about {needed_s:.0f} s, more than the budget allows (run ortune doctor)"


def no_peak(why: str, *, again: bool) -> str:
    """That the machine's peak could not be measured."""
    return f"the machine's peak {'was not measured again' if again else 'is not known'}: {why}"


def too_many_runs(steady: int, last: int) -> str:
    """That the end of a long trace is told alone."""
    return f"only the last {last:,} of {steady:,} steady runs are shown"


def headline(result: ProfileResult) -> str:
    """The answer in one sentence: what a run takes, and who owns most of it."""
    if result.against is not None:
        return f"{_doubt(result)}{difference_words.answer(result.against)}"
    return run_sentence(result)


def _doubt(result: ProfileResult) -> str:
    """Whose times these are, where they are nobody's."""
    return "functional only, the GPU is software: " if result.software else ""


def run_sentence(result: ProfileResult) -> str:
    """The mean steady run, and its largest owners."""
    if not result.n_runs:
        return "no run was recorded completely, so there are no times per run"
    if not result.wall_ns:
        return (
            "the clock of this profile is too coarse: its runs measure as 0 ms, so there are no times per run"
        )
    runs = "one run" if result.n_runs == 1 else f"mean of {result.n_runs} steady runs"
    if any(lack.code == "runs" for lack in result.trace.lacks):
        runs = "everything recorded, as one run"
    text = f"{_doubt(result)}{duration(result.wall_ns)} a run, profiled ({runs})"
    largest = max(result.categories, key=lambda c: c.ns, default=None)
    if largest is not None and largest.ns > 0:
        part = next(part for name, _, _, part in category_rows(result) if name == largest.name)
        text += f": {part} % {_category(largest.name, result)}"
    on_device = _kernels_ns(result)
    if on_device:
        first = max(result.nodes, key=lambda n: n.device_ns or 0.0)
        part = percent((first.device_ns or 0.0) / on_device)
        return f"{text}; {_on_device(on_device, result)}, most in {shorten(name_of(first), NAME)} ({part})"
    node = max(result.nodes, key=lambda n: n.time_ns, default=None)
    if node is not None and node.time_ns > 0:
        largest_node = "the largest recorded node" if result.trace.lost_runs else "the largest node"
        text += f"; {largest_node} is {shorten(name_of(node), NAME)} ({share(node.time_ns, result)})"
    return text


def _kernels_ns(result: ProfileResult) -> float:
    """Time of all nodes' kernels on a device; 0 where the profile has none."""
    return sum(node.device_ns or 0.0 for node in result.nodes)


def _on_device(ns: float, result: ProfileResult) -> str:
    """How long the GPU computes, beside a run that nothing profiles: what is left is the host's."""
    plain_ns = result.wall_ns / result.slowdown_ratio if result.slowdown_ratio else 0.0
    if not plain_ns:
        return f"the GPU computes for {duration(ns)}"
    part = percent(min(1.0, ns / plain_ns), 0)
    return f"the GPU computes for {duration(ns)}, {part} of a run without the profiler ({duration(plain_ns)})"


def share(ns: float, result: ProfileResult) -> str:
    """Of the run: "12.3 %"."""
    return percent(ns / result.wall_ns) if result.wall_ns else ""


def name_of(node: ProfiledNode) -> str:
    """The user's own node, the first of those that this one stands for; the optimised name where that is not known."""
    return node.originals[0] if node.originals else node.name


def beneath(node: ProfiledNode) -> str:
    """What it is fused with, what the optimised graph calls it, which operator it is where the name does not tell.

    And why it was inserted.
    """
    other = node.name if node.originals and node.name != node.originals[0] else ""
    has_operator = node.op_type.lower() in name_of(node).lower()
    parts = [] if has_operator and not other else [node.op_type]
    parts += [with_] if (with_ := fused_with(node.originals)) else []
    parts += ["as", other] if other else []
    parts += [f"inserted: {node.purpose}"] if node.purpose else []
    return " ".join(parts)


def names(result: ProfileResult) -> dict[str, str]:
    """What the user calls each node of the optimised graph."""
    return {node.name: name_of(node) for node in result.nodes}


def _category(name: CategoryName, result: ProfileResult) -> str:
    """A category in words; what a device computes later is not called computing."""
    waits = any(c.name == "device-wait" and c.ns > 0 for c in result.categories)
    on_the_cpu = result.providers.get(CPU.name, 0.0)
    if name == "kernels" and waits and 2 * on_the_cpu < sum(result.providers.values()):
        return "in nodes, by the host's clock"
    return CATEGORIES[name]


def category_rows(result: ProfileResult) -> list[tuple[CategoryName | None, str, str, str]]:
    """Name, words, time and share of every category that has any; the last row is the sum, which is 100.0 %."""
    there = [c for c in result.categories if c.ns]
    if not there:
        return []
    unit = unit_of(result.wall_ns)
    whole = sum(c.ns for c in there)
    times = apportion([c.ns / unit.scale for c in there], unit.digits)
    shares = apportion([100 * c.ns / whole for c in there], 1) if whole else [0.0] * len(there)
    rows: list[tuple[CategoryName | None, str, str, str]] = [
        (c.name, _category(c.name, result), f"{t:.{unit.digits}f}", f"{s:.1f}")
        for c, t, s in zip(there, times, shares, strict=True)
    ]
    rows.sort(key=lambda row: -float(row[2]))
    return [*rows, (None, "the run", f"{sum(times):.{unit.digits}f}", f"{sum(shares):.1f}")]


def absent_categories(result: ProfileResult) -> str:
    """Which categories have nothing of the run; "" where nothing is known of the host."""
    if result.trace.device_only:
        return ""
    words = [CATEGORIES[c.name] for c in result.categories if not c.ns and c.name != "device-idle"]
    return f"nothing in: {', '.join(words)}" if words else ""


def category_unit(result: ProfileResult) -> Unit:
    """The unit of the categories' times."""
    return unit_of(result.wall_ns)


def operators(result: ProfileResult, most: int = TOP_OPERATORS) -> Table:
    """The dearest operators."""
    several = len({o.provider for o in result.operators}) > 1
    rows = []
    for o in result.operators[:most]:
        provider = short(o.provider)
        name = f"{o.op_type} on {provider}" if several and provider else o.op_type
        rows.append([Cell(name), *_part_cells(o.time_ns, o.n_nodes, result)])
    rest = result.operators[most:]
    if rest:
        ns, count = sum(o.time_ns for o in rest), sum(o.n_nodes for o in rest)
        name = f"{len(rest)} other operators" if len(rest) > 1 else "1 other operator"
        rows.append([Cell(name, tone="faint"), *_part_cells(ns, count, result, "faint")])
    return _named("operators", ("operator", "time", "share", "nodes"), rows)


def _named(title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table whose first column holds names."""
    columns = [Column(heads[0], "name"), *(Column(head) for head in heads[1:])]
    return table(columns, rows, title=title, dense=True)


def _part_cells(ns: float, n_nodes: int, result: ProfileResult, tone: Tone = "") -> list[Cell]:
    """Time, share of the run, and nodes."""
    return [Cell(text, tone=tone) for text in (duration(ns), share(ns, result), str(n_nodes))]


def nodes(result: ProfileResult, most: int = TOP_NODES, after: int = 0) -> Table:
    """The dearest nodes ``after`` so many, on the device where its kernels are timed; columns that say nothing go."""
    top = sorted(result.nodes, key=lambda n: (-(n.device_ns or 0.0), -n.time_ns))[after:most]
    floors, waits = any(n.floor_ns for n in top), any(wait(n) for n in top)
    on_device = _kernels_ns(result)
    heads = ["node", "on the device", "of it", "host", "share"] if on_device else ["node", "time", "share"]
    heads += ["x roofline", "bound"] if floors else []
    heads += ["wait"] if waits else []
    rows = []
    for node in top:
        cells = [duration(node.time_ns), share(node.time_ns, result)]
        if on_device:
            cells = [duration(node.device_ns or 0.0), percent((node.device_ns or 0.0) / on_device), *cells]
        # How many times too long says nothing where starting the node is what takes the time.
        ratio = "" if node.bound == "overhead" else floor_ratio(node)
        cells += [ratio, node.bound] if floors else []
        cells += [wait(node)] if waits else []
        rows.append([Cell(name_of(node), beneath(node)), *(Cell(text) for text in cells)])
    more = len(result.nodes) - len(top)
    which = f"nodes (the next {len(top)}" if after else f"nodes (the most expensive {len(top)}"
    title = f"{which} of {len(result.nodes)})" if more else "nodes"
    return _named(title, heads, rows)


def floor_ratio(node: ProfiledNode) -> str:
    """How many times the least that this machine needs it takes undisturbed: "1.4"; "" where that is not known."""
    return three(node.least_ns / node.floor_ns) if node.floor_ns else ""


def wait(node: ProfiledNode) -> str:
    """The share of a node's time that is waiting for threads; "" for next to none."""
    part = node.wait_ns / node.time_ns if node.time_ns else 0.0
    return percent(part, 0) if part >= 0.005 else ""


def layer_tree(layers: Sequence[LayerTime]) -> dict[str, list[LayerTime]]:
    """Layers by the nearest layer around them, "" for the outermost; each list has the dearest first."""
    names = {layer.layer for layer in layers}
    tree: dict[str, list[LayerTime]] = {}
    for layer in layers:
        above = layer.layer
        while above := above.rpartition("/")[0]:
            if above in names:
                break
        tree.setdefault(above, []).append(layer)
    for inner in tree.values():
        inner.sort(key=lambda one: (-one.time_ns, one.layer))
    return tree


def layers(result: ProfileResult, most: int = TOP_LAYERS) -> Table:
    """The outermost level of the hierarchy of names that has more than one place."""
    tree = layer_tree(result.layers)
    level = tree.get("", [])
    while len(level) == 1 and tree.get(level[0].layer):
        level = tree[level[0].layer]
    rows = [[Cell(one.layer), *_part_cells(one.time_ns, one.n_nodes, result)] for one in level[:most]]
    more = len(level) - len(rows)
    title = f"layers (the most expensive {len(rows)} of {len(level)})" if more else "layers"
    return _named(title, ("layer", "time", "share", "nodes"), rows)


def findings(result: ProfileResult) -> list[str]:
    """What stands out, one sentence each."""
    return [finding_words.sentence(finding) for finding in result.stands_out]


def _first_findings(result: ProfileResult) -> list[str]:
    """The weightiest, and how many there are more."""
    sentences = findings(result)
    more = len(sentences) - FEW_FINDINGS
    return sentences[:FEW_FINDINGS] + ([f"{more} more: -v lists them"] if more > 0 else [])


def variance(result: ProfileResult) -> str:
    """How the runs differ and who makes the slow ones slow."""
    v = result.variance
    if v is None:
        return ""
    parts = []
    if v.left_out_runs:
        parts.append(f"the first {f'{v.left_out_runs} runs' if v.left_out_runs > 1 else 'run'} left out")
    if v.spread_ratio is not None:
        parts.append(f"p90 / p10 is {v.spread_ratio:.2f}")
    if v.spread_ratio is not None and not v.slow_runs:
        parts.append(f"{result.n_runs} runs are too few to explain slow runs")
    if v.extra_ns is not None and v.owners and v.usual_ns:
        called = names(result)
        owners = [
            f"{percent(o.share_ratio, 0)} {'of what takes longer ' if i == 0 else ''}in "
            f"{shorten(owner_name(o.name, o.op_type, called), NAME)}"
            for i, o in enumerate(v.owners[:TOP_OWNERS])
            if i == 0 or o.share_ratio >= 0.1
        ]
        slow = f"the slowest {v.slow_runs} runs (+{percent(v.extra_ns / v.usual_ns, 0)}): {', '.join(owners)}"
        less = f" (other parts take {duration(v.less_ns)} less)" if v.less_ns > LESS * v.extra_ns else ""
        parts.append(slow + less)
    return "; ".join(parts)


def owner_name(name: str, op_type: str, called: Mapping[str, str]) -> str:
    """What the user calls a node; a category in words."""
    return called.get(name, name) if op_type else category_words(name)


def memory_line(result: ProfileResult) -> str:
    """All that is taken at the peak, who holds it, and what the arena holds beyond."""
    m = result.memory
    if m is None:
        return ""
    called = names(result)
    text = f"{size(memory_total(m))} at most"
    parts = {words: sum(o.bytes for o in m.owners if OWNERS[o.kind] == words) for words in OWNERS.values()}
    owners = []
    for words, size_bytes in sorted(parts.items(), key=lambda part: -part[1]):
        if size_bytes:
            owners.append(f"{words} {size(size_bytes)}{_largest(m, called) if words == VALUES else ''}")
    text += f": {', '.join(owners)}" if owners else _largest(m, called)
    untouched = memory_total(m) - (m.resident_bytes or memory_total(m))
    text += f"; {size(untouched)} of it never used" if untouched > 0 else ""
    text += f"; the arena holds {size(m.held_bytes)}" if m.held_bytes is not None else ""
    return f"{text} ({memory_source(m)})"


def memory_total(memory_profile: MemoryProfile) -> int:
    """All that is taken at the peak; what the allocator tells where that was not summed."""
    return memory_profile.peak_bytes if memory_profile.total_bytes is None else memory_profile.total_bytes


def memory_owner(owner: MemoryOwner, called: Mapping[str, str]) -> str:
    """Who holds it: the user's own node, or in words."""
    if owner.kind == "value":
        return called.get(owner.name, owner.name)
    return f"{owner.count} smaller values" if owner.kind == "values" else OWNERS[owner.kind]


def _largest(memory_profile: MemoryProfile, called: Mapping[str, str]) -> str:
    """While which node the values are most, and the largest of them."""
    first = [f"{shorten(called.get(name, name), 32)} {size(n)}" for name, n in memory_profile.at_peak[:2]]
    parts = (
        [f"at {shorten(called.get(memory_profile.peak_node, memory_profile.peak_node), NAME)}"]
        if memory_profile.peak_node
        else []
    )
    parts += [f"largest: {', '.join(first)}"] if first else []
    return f" ({'; '.join(parts)})" if parts else ""


def memory_source(memory_profile: MemoryProfile) -> str:
    """Where the figures come from, and the run whose nodes are shown."""
    run = "" if memory_profile.run is None else f"run {memory_profile.run + 1}, "
    return f"{run}{SOURCES[memory_profile.source]}"


def size(n_bytes: int) -> str:
    """Mebibytes, and below one kibibytes."""
    return memory(n_bytes) if abs(n_bytes) >= 2**20 else f"{math.ceil(n_bytes / 1024)} KiB"


def page_parts(run: PageParts) -> str:
    """A run in a page, from the call of ``run()`` to its promise."""

    def part(name: str, ns: float) -> str:
        return f"{name} {duration(ns)}" if ns > 0 else f"{name} too small to measure"

    operators = "queueing operators" if run.queued else "operators"
    rest = "waiting for the GPU, and other time" if run.queued else "rest"
    parts = [
        part("preparing inputs", run.inputs_ns),
        part(operators, run.operators_ns),
        part("returning outputs", run.outputs_ns),
        part(rest, run.rest_ns),
    ]
    runs = "one run" if run.n_runs == 1 else f"{run.n_runs} runs"
    return f"{', '.join(parts)}, {duration(run.whole_ns)} in all (medians of {runs}, under the profiler)"


def gpu_run(run: GpuRun) -> str:
    """A run in a page, part by part."""

    def part(name: str, ns: float, n_bytes: int) -> str:
        time = duration(ns) if ns > 0 else "too small to measure"
        return f"{name} {time} ({size(n_bytes)})"

    doubt = "; functional only: the GPU is software" if run.software else ""
    basis = "one run each" if run.n_runs == 1 else f"medians of {run.n_runs} runs each"
    return (
        f"{duration(run.device_ns)}, {part('upload', run.upload_ns, run.input_bytes)}, "
        f"{part('read-back', run.read_back_ns, run.output_bytes)}, {duration(run.whole_ns)} in all "
        f"({basis}, in turns, without the profiler{doubt})"
    )


def notes(result: ProfileResult) -> list[tuple[str, str]]:
    """What the figures rest on, each with its name."""
    rows = [("profiling", slowdown(result)), ("machine", interference(result))]
    if len(result.providers) > 1:
        parts = [f"{_provider(p)} {share(ns, result)}" for p, ns in result.providers.items()]
        rows.append(("providers", ", ".join(parts)))
    if result.device_ns:
        parts = [f"{_provider(p)} {duration(ns)}" for p, ns in result.device_ns.items()]
        rows.append(("on the device", f"{', '.join(parts)}, in parallel to the host and not part of the sum"))
    rows.append(("copies", transfers(result)))
    rows += [("trace", text) for text in trace_notes(result)]
    rows.append(("not mapped", unmapped(result)))
    rows.append(("memory", uncounted(result)))
    if result.side is not None:
        rows += [("placement", text) for text in placed(result.side.placement)]
    rows += [("note", text) for text in result.notes]
    return [(name, text) for name, text in rows if text]


def slowdown(result: ProfileResult) -> str:
    """How much the profiler disturbed what it measured."""
    ratio = result.slowdown_ratio
    if ratio is None:
        return ""
    if ratio >= ROUGH_SLOWDOWN:
        return f"runs take {ratio:.2f}x the time of those without it, so small nodes appear too expensive"
    if abs(ratio - 1) <= SLOWDOWN_WORTH_SAYING:
        return "runs take as long as without it, within 3 %"
    return f"runs take {ratio:.2f}x the time of those without it (another process)"


def interference(result: ProfileResult) -> str:
    """How much of the mean run is other programs, interrupts and clocks; and what the system says of these."""
    parts = []
    if result.fast_ns is not None and result.wall_ns:
        beyond = max(0.0, 1 - result.fast_ns / result.wall_ns)
        parts.append(
            f"{percent(beyond, 0)} of the mean run is interference; without it a run takes "
            f"{duration(result.fast_ns)}"
        )
    if result.sensors is not None and result.sensors.load1 is not None:
        parts.append(f"load {result.sensors.load1:.1f} while profiling")
    return "; ".join(parts)


def trace_notes(result: ProfileResult) -> list[str]:
    """What the trace does not hold."""
    said_first = {lack.what for lack in result.trace.lacks}
    return [text for text in result.trace.missing if text not in said_first]


def damage(result: ProfileResult) -> list[str]:
    """What is wrong with the traces that were read, which a reader must know before any figure."""
    b = result.against.b_trace if result.against else None
    if b is None:
        return _damage(result.trace, "the trace")
    return _damage(result.trace, "the trace of A") + _damage(b, "the trace of B")


def _damage(trace: TraceInfo, which: str) -> list[str]:
    sentences = []
    if trace.n_unreadable:
        n = trace.n_unreadable
        why = (
            "it cannot be read, or its times are impossible"
            if n == 1
            else ("they cannot be read, or their times are impossible")
        )
        sentences.append(
            f"{which} is damaged: {n:,} {'event is' if n == 1 else 'events are'} left out: {why}"
        )
    if not trace.complete:
        sentences.append(f"{which} was truncated; the readable part is shown")
    if n := trace.n_mended:
        sentences.append(
            f"{which} is damaged: {n:,} {'event is' if n == 1 else 'events are'} not JSON (an extra comma), and "
            f"{'was' if n == 1 else 'were'} read without the comma"
        )
    if n := trace.left_out_runs:
        runs = trace.n_runs + n
        sentences.append(
            f"{which} is damaged: {n:,} of {runs:,} runs lost events and {'is' if n == 1 else 'are'} left out"
        )
    if n := trace.lost_runs:
        lost = f"{n:,} of {trace.n_runs:,} runs" if trace.n_runs > 1 else "the run"
        sentences.append(
            f"{which} is damaged: {lost} lost events, so time outside the recorded nodes is unexplained"
        )
    if n := trace.n_outside:
        sentences.append(
            f"{which} is damaged: {n:,} {'execution of a node is' if n == 1 else 'executions of nodes are'} left out: "
            "the run around them was not recorded completely"
        )
    return [*sentences, *(f"{which} lacks {lack.what}" for lack in trace.lacks if lack.code != "end")]


def uncounted(result: ProfileResult) -> str:
    """How many values the figures of memory leave out."""
    n = result.memory.n_unknown if result.memory else 0
    return f"{n} {'value is' if n == 1 else 'values are'} of unknown size and not counted" if n else ""


def unmapped(result: ProfileResult) -> str:
    """How many nodes could not be mapped to the user's own, and the first of them."""
    if not result.unmapped:
        return ""
    first = ", ".join(shorten(name, 32) for name in result.unmapped[:3])
    more = f" and {len(result.unmapped) - 3} more" if len(result.unmapped) > 3 else ""
    n = len(result.unmapped)
    return f"{n} {'node' if n == 1 else 'nodes'} of the optimised graph: {first}{more}"


def untraced(reason: str) -> list[str]:
    """That no kernel of the GPU is timed, and what mends it; nothing where all are."""
    if not reason:
        return []
    return [
        f"the GPU's kernels are not timed ({reason}): pip install nvidia-cuda-cupti beside onnxruntime-gpu"
    ]


def transfers(result: ProfileResult) -> str:
    """Copies to and from the device, with their bytes."""

    def told(row: Transfer) -> str:
        by = " by Memcpy nodes" if row.of_nodes else ""
        return f"{_WAYS[row.way]}{by} {size(round(row.bytes))} in {duration(row.time_ns)}"

    return ", ".join(map(told, result.transfers))


def _provider(name: str) -> str:
    return short(name) or "no provider"


def document(envelope: Envelope[ProfileResult]) -> Document:
    """The profile: the answer first, then where the time goes."""
    result = envelope.result
    facts = [("runs", variance(result)), ("memory", memory_line(result))]
    page = [("a run() in the page", page_parts(result.page_parts))] if result.page_parts else []
    page += [("on the GPU", gpu_run(result.gpu_run))] if result.gpu_run else []
    written = [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return Document(
        title=f"ortune profile: {subject(result)}",
        before=[Line(text, "look") for text in damage(result)],
        blocks=[
            *_against(result),
            Line(run_sentence(result), "" if result.against else "strong"),
            Points(title="findings", items=_first_findings(result), marked=True),
            _categories(result),
            Pairs(rows=page),
            nodes(result, FEW_NODES),
            operators(result),
            Pairs(rows=[("headroom", result.headroom.sentence)] if result.headroom else []),
            Pairs(rows=written),
            Code(title="next", lines=next_commands(envelope), commands=True),
        ],
        support=[
            Points(title="other findings", items=findings(result)[FEW_FINDINGS:], marked=True),
            nodes(result, after=FEW_NODES),
            layers(result),
            Pairs(rows=[(name, text) for name, text in facts if text]),
            Pairs(rows=notes(result)),
        ],
    )


def next_commands(envelope: Envelope[ProfileResult]) -> list[str]:
    """What measures the weightiest finding's fix, what makes the model faster, and what supports the answer."""
    result = envelope.result
    fixes = [f.fix for f in result.stands_out if f.plan is not None]
    tune = (
        [] if result.side is None or result.side.plan != Plan() else ["ortune", "tune", model_of(result.side)]
    )
    return [*fixes[:1], *lines(tune, told_line(result.session, envelope.store))]


def _against(result: ProfileResult) -> list[Block]:
    """Where the time went, B minus A; then of whom the rest is told."""
    if result.against is None:
        return []
    return [
        Line(headline(result), "strong"),
        *difference_words.tables(result.against),
        Pairs(rows=difference_words.notes(result.against)),
        Line(subject(result), "strong"),
    ]


def _categories(result: ProfileResult) -> Table:
    """Categories with a bar each; the last row is the sum."""
    rows = category_rows(result)
    absent = absent_categories(result)
    tones: list[Tone] = [
        "strong" if name is None else "look" if name == "unexplained" and abs(float(part)) > 2 else ""
        for name, _, _, part in rows
    ]
    return table(
        [Column("", "text"), Column(category_unit(result).name), Column("%")],
        [
            [Cell(cell, tone=tone) for cell in (f"  {text}", time, part)]
            for (_, text, time, part), tone in zip(rows, tones, strict=True)
        ],
        title="where the time goes",
        bars=[0.0 if n is None else max(0.0, min(1.0, float(part) / 100)) for n, _, _, part in rows],
        notes=[absent] if absent else [],
    )
