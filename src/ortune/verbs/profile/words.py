"""A profile in words: the same sentences and cells for the terminal, for Markdown and for the page."""

from __future__ import annotations

from ortune.records import (
    Envelope,
    PageParts,
    Plan,
    ProfileResult,
)
from ortune.show import difference_tables, difference_words, transfer_words
from ortune.show.answer_commands import lines, model_of, only_given, report_line, tune_line
from ortune.show.document import Block, Code, Document, Line, Pairs, Points
from ortune.show.numbers import duration, percent, shorten
from ortune.show.profile_nodes import (
    NAME,
    categories,
    category_name,
    category_rows,
    kernels_ns,
    layers,
    name_of,
    names,
    node_ns,
    node_share,
    nodes,
    operators,
    owner_name,
    run_categories,
    undisturbed_ns,
)
from ortune.show.stored_kind import StoredKind
from ortune.verbs.profile import compiled_words
from ortune.verbs.profile.memory_words import memory_line
from ortune.verbs.profile.note_words import damage, notes

FEW_NODES, FEW_FINDINGS = 5, 3
"""Maximum numbers of nodes and findings in the short result; the details list up to ten."""
TOP_OWNERS = 3
LESS = 0.1
"""Minimum fraction of the extra time of slow runs from which a note says that other parts took less time."""


def subject(result: ProfileResult) -> str:
    """Return the name of the profiled model, or of the trace's file if no model was profiled."""
    return result.side.label if result.side else result.trace.path or "profile"


def headline(result: ProfileResult) -> str:
    """Return the headline: the latency and its largest parts, or the difference between two profiles."""
    if result.against is not None:
        return f"{_doubt(result)}{difference_words.answer(result.against)}"
    return run_sentence(result)


def _doubt(result: ProfileResult) -> str:
    """Return a prefix that says that the device is emulated and its times are not real; "" for other devices."""
    return "functional only, the device is emulated: " if result.software else ""


def run_sentence(result: ProfileResult) -> str:
    """Return a sentence with the time of the mean steady run, its largest category and its largest node."""
    if not result.n_runs:
        return "no run was recorded completely, so there are no times per run"
    if not result.wall_ns:
        return (
            "the clock of this profile is too coarse: its runs measure as 0 ms, so there are no times per run"
        )
    runs = "one run" if result.n_runs == 1 else f"mean of {result.n_runs} steady runs"
    if any(lack.code == "runs" for lack in result.trace.lacks):
        runs = "everything recorded, as one run"
    alone_ns = undisturbed_ns(result)
    if alone_ns is not None:
        mean = f"with it {duration(result.wall_ns)}, {runs}"
        text = f"{_doubt(result)}{duration(alone_ns)} a run without interference, profiled ({mean})"
    else:
        text = f"{_doubt(result)}{duration(result.wall_ns)} a run, profiled ({runs})"
    largest = max(run_categories(result), key=lambda c: c.ns, default=None)
    if largest is not None and largest.ns > 0:
        part = next(part for name, _, _, part in category_rows(result) if name == largest.name)
        text += f": {part} % {category_name(largest.name, result)}"
    on_device = kernels_ns(result)
    if on_device:
        first = max(result.nodes, key=lambda n: n.device_ns or 0.0)
        part = percent((first.device_ns or 0.0) / on_device)
        return f"{text}; {_on_device(on_device, result)}, most in {shorten(name_of(first), NAME)} ({part})"
    node = max(result.nodes, key=lambda n: node_ns(n, result), default=None)
    if node is not None and node_ns(node, result) > 0:
        largest_node = "the largest recorded node" if result.trace.lost_runs else "the largest node"
        text += f"; {largest_node} is {shorten(name_of(node), NAME)} ({node_share(node, result)})"
    return text


def _on_device(ns: float, result: ProfileResult) -> str:
    """Return a clause with the GPU's computing time and its fraction of a run without the profiler."""
    plain_ns = result.wall_ns / result.slowdown_ratio if result.slowdown_ratio else 0.0
    if not plain_ns:
        return f"the GPU computes for {duration(ns)}"
    part = percent(min(1.0, ns / plain_ns), 0)
    return f"the GPU computes for {duration(ns)}, {part} of a run without the profiler ({duration(plain_ns)})"


def findings(result: ProfileResult) -> list[str]:
    """Return the findings, one sentence each."""
    return [finding.sentence() for finding in result.stands_out]


def _first_findings(result: ProfileResult) -> list[str]:
    """Return the most important findings as sentences, followed by the number of further findings."""
    sentences = findings(result)
    more = len(sentences) - FEW_FINDINGS
    return sentences[:FEW_FINDINGS] + ([f"{more} more: -v lists them"] if more > 0 else [])


def variance(result: ProfileResult) -> str:
    """Return text on how much the runs vary and which nodes make slow runs slow; "" if unknown."""
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
            f"{percent(o.share_ratio, 0)} {'of the extra time ' if i == 0 else ''}in "
            f"{shorten(owner_name(o.name, o.op_type, called), NAME)}"
            for i, o in enumerate(v.owners[:TOP_OWNERS])
            if i == 0 or o.share_ratio >= 0.1
        ]
        slow = f"the slowest {v.slow_runs} runs (+{percent(v.extra_ns / v.usual_ns, 0)}): {', '.join(owners)}"
        less = f" (other parts take {duration(v.less_ns)} less)" if v.less_ns > LESS * v.extra_ns else ""
        parts.append(slow + less)
    return "; ".join(parts)


def page_parts(run: PageParts) -> str:
    """Return text with the parts of a run in a browser page, from the call of ``run()`` until its promise resolves."""

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


def document(envelope: Envelope[ProfileResult]) -> Document:
    """Return the document: the headline, then the time by category, operator and node."""
    result = envelope.result
    facts = [("runs", variance(result)), ("memory", memory_line(result))]
    page = [("a run() in the page", page_parts(result.page_parts))] if result.page_parts else []
    written = [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return Document(
        title=f"ortune profile: {subject(result)}",
        before=[Line(text, "look") for text in damage(result)],
        blocks=[
            *_against(result),
            Line(run_sentence(result), "" if result.against else "strong"),
            Points(title="findings", items=_first_findings(result), marked=True),
            categories(result),
            Pairs(rows=[*page, *transfer_words.rows(result)]),
            nodes(result, FEW_NODES),
            operators(result),
            *compiled_words.blocks(result, FEW_NODES),
            Pairs(rows=[("headroom", result.headroom.sentence)] if result.headroom else []),
            Pairs(rows=written),
            Code(title="next", lines=next_commands(envelope), commands=True),
        ],
        support=[
            Points(title="other findings", items=findings(result)[FEW_FINDINGS:], marked=True),
            nodes(result, after=FEW_NODES),
            layers(result),
            *compiled_words.more(result, FEW_NODES),
            Pairs(rows=[(name, text) for name, text in facts if text]),
            Pairs(rows=notes(result)),
        ],
    )


def next_commands(envelope: Envelope[ProfileResult]) -> list[str]:
    """Return commands to run next: to measure the main fix, to tune, and to show the details."""
    result = envelope.result
    fixes = [f.fix for f in result.stands_out if f.plan is not None]
    side, work = result.side, envelope.workload
    tune: list[str] = []
    if side is not None and side.plan == Plan():
        tune = (
            tune_line(side, only_given(work), "", result.notes)
            if work
            else ["ortune", "tune", model_of(side)]
        )
    return [*fixes[:1], *lines(tune, report_line(result.session, envelope.store))]


def _against(result: ProfileResult) -> list[Block]:
    """Return the tables of the difference B minus A, and the name of the side that the later blocks describe."""
    if result.against is None:
        return []
    return [
        Line(headline(result), "strong"),
        *difference_tables.tables(result.against),
        Pairs(rows=difference_words.notes(result.against)),
        Line(subject(result), "strong"),
    ]


STORED = StoredKind(
    result=ProfileResult,
    document=document,
    headline=headline,
    build=lambda result: result.side.runtime.build if result.side else "",
)
