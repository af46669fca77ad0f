"""A first look in words: the same sentences for the terminal and for Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ortune.catalogue.providers import profile_names, short_name
from ortune.durations import in_words
from ortune.printable import amount
from ortune.records import Envelope, ModelCost, OperatorTime
from ortune.rules import EVERY_RULE
from ortune.show import finding_words, memory_words, ort_format_words, transfer_words
from ortune.show.document import Code, Column, Document, Line, Pairs, Points, table
from ortune.show.numbers import duration, memory, operations, percent, significant, size, whole_percent
from ortune.show.placement_words import placed_or_why
from ortune.show.stored_kind import StoredKind
from ortune.verbs.look.result import LookResult, RepeatedRegion

TOP_OPERATORS = 5
TOP_REGIONS = 2
WORTH_SAYING, DOMINATES = 0.1, 0.5
"""Minimum fractions of operator time of repeated regions that are mentioned, and mentioned in the headline."""
MOST_FINDINGS = 5
MOST_UNKNOWN = 3
SLOWDOWN_WORTH_SAYING = 0.03
ROUGH_SLOWDOWN = 1.3
LONG_S = 60.0
"""Duration of skipped steps in seconds above which a busy machine gets no estimate of the additional time."""


LATENCY, PROFILE = "a warmed-up latency", "the profile"
NAMES = "mapping of optimised nodes to your node names"
NO_COMPLETE_RUN = "contains no complete run"
NOT_MAPPED = "no time left to map its nodes"


ONE_CALLER = "measured with one caller"
"""Beginning of the note that a different load was requested."""


def no_time_for(what: str, more_s: float, busy: str = "") -> str:
    """Return a phrase on a skipped step and its additional time; on a busy machine, a long time is not given."""
    if busy and more_s > LONG_S:
        return f"{what} (machine busy; rerun when it is idle)"
    return f"{what} (about {in_words(math.ceil(more_s))} more)"


def checks(left_out: Sequence[str]) -> str:
    """Return the number of skipped rules as text: "3 checks", or "all checks" if there was no time for any rule."""
    if EVERY_RULE in left_out:
        return "all checks"
    return amount(len(left_out), "check")


def no_profile(why: str) -> str:
    """Return a phrase on why there is no profile, for a reason other than lack of time."""
    return f"{PROFILE}, which {why}"


def profile_failed(error: str) -> str:
    """Return the sentence that there is no profile because its process failed, with the first line of its error."""
    return no_profile(f"failed ({error.splitlines()[0]})")


def one_caller(load: str) -> str:
    """Return a sentence that says that one caller was measured although the workload has a different load."""
    return f"{ONE_CALLER}, back to back, but the workload has {load}"


def about(result: LookResult) -> list[tuple[str, str]]:
    """Return rows (title, text) on the properties of the file."""
    info = result.model
    # ORT format declares all known domains, so domains without a node are left out.
    used = {operator.rpartition(".")[0] for operator in result.operators}
    named = {d or "ai.onnx": v for d, v in info.opsets.items() if d in ("", "ai.onnx") or d in used}
    opsets = ", ".join(f"{domain} {version}" for domain, version in named.items())
    parts = [_file(result), f"opset {opsets.removeprefix('ai.onnx ')}" if opsets else "no opset"]
    parts += [f"IR version {info.ir_version}"] if info.ir_version else []
    parts += [f"made by {info.producer.strip()}"] if info.producer.strip() else []
    rows = [("file", ", ".join(parts)), ("weights", _weights(result)), ("nodes", _nodes(result))]
    if result.flops is not None:
        note = f" ({result.flops_note})" if result.flops_note else ""
        least = "" if result.flops_complete else "at least "
        rows.append(("work", f"{least}{operations(result.flops)} a run{note}"))
    elif result.flops_note:
        rows.append(("work", f"not known; {result.flops_note}"))
    if result.inputs:
        rows.append(("inputs", result.inputs.removeprefix("inputs: ")))
    return [*rows, *(ort_format_words.about(result.ort_file) if result.ort_file else [])]


def flops_note(cost: ModelCost) -> str:
    """Return a text on the omissions and assumptions of the count of operations; "" if there are none."""
    unknown = uncounted(cost)
    notes = [f"not counted: {unknown}"] if unknown else []
    notes += cost.notes[:1]
    notes += [f"and {len(cost.notes) - 1} more notes like this"] if len(cost.notes) > 1 else []
    return "; ".join(notes)


def not_counted(budget_s: float) -> str:
    """Return a sentence that says that the operations of a run were not counted for lack of time."""
    return f"counting its operations takes longer than the budget of {in_words(budget_s)} allows"


def uncounted(cost: ModelCost) -> str:
    """Return the operators without a known cost as text: "3 NonMaxSuppression, 1 Loop"; "" if there are none."""
    counts = Counter(node.op_type for node in cost.nodes if node.times and not node.known)
    top = counts.most_common(MOST_UNKNOWN)
    rest = counts.total() - sum(n for _, n in top)
    return ", ".join(f"{n} {op}" for op, n in top) + (f" and {rest} other nodes" if rest else "")


def _file(result: LookResult) -> str:
    info = result.model
    beside = f" and {size(info.external_bytes)} of external data" if info.external_bytes else ""
    kind = ", ORT format" if info.format == "ort" else ""
    return f"{size(info.size_bytes)}{beside}{kind}"


def _weights(result: LookResult) -> str:
    if not result.parameters:
        return "none"
    types = list(result.weight_types)
    if not result.parameter_bytes:
        # Strings: their length is unknown without reading them.
        return f"{_parameters(result.parameters)} of {', '.join(types)}"
    if len(types) == 1:
        kinds = f" of {types[0]}"
    else:
        shares = [f"{t} {percent(n / result.parameter_bytes, 0)}" for t, n in result.weight_types.items()
                  if n >= 0.005 * result.parameter_bytes]  # fmt: skip
        kinds = f": {', '.join(shares)}" if len(shares) > 1 else f", nearly all {types[0]}"
    return f"{_parameters(result.parameters)}, {size(result.parameter_bytes)}{kinds}"


def operators_in_file(result: LookResult) -> list[tuple[str, int]]:
    """Return pairs of an operator and its number of nodes, without constants, which take no time."""
    return [(op, n) for op, n in result.operators.items() if op != "Constant"]


def _parameters(number: int) -> str:
    return "1 parameter" if number == 1 else f"{_count(number)} parameters"


def _nodes(result: LookResult) -> str:
    kinds = operators_in_file(result)
    total, top = sum(n for _, n in kinds), kinds[:TOP_OPERATORS]
    rest = len(kinds) - len(top)
    more = f", {amount(rest, 'other')}" if rest else ""
    return f"{total} in file: " + ", ".join(f"{n} {op}" for op, n in top) + more if top else "none"


def headline(result: LookResult) -> str:
    """Return one sentence on the latency, a single observation, and the most expensive operator; "" without a run."""
    t = result.timing
    if t is None:
        return ""
    if finding_words.functional_only(result.findings):
        return f"functional only: {result.plan.describe()} ran on an emulated device, so no speed is shown"
    how = "single observation"
    if not t.warmed_up:
        what = f"{t.n_runs} runs" if t.n_runs else "the first run"
        how = f"{what}, not warmed up; a single observation"
    plan = result.plan.describe()
    settings = "" if plan == "default" else f" with {plan}"
    text = f"{'p50 ' if t.n_runs else ''}{duration(t.latency_ns)} a run{settings} ({how})"
    top = result.profile.operators[0] if result.profile and result.profile.operators else None
    largest = next(iter(_regions(result)), None)
    if largest is not None and largest.share_from == "profile" and (largest.share_ratio or 0.0) >= DOMINATES:
        return (
            f"{text}; {whole_percent(largest.share_ratio or 0.0)} of operator time in {region_words(largest)}"
        )
    if top is None:
        return text
    return f"{text}; {whole_percent(top.share_ratio)} of operator time in {top.op_type} ({_nodes_of(top.n_nodes)})"


def _regions(result: LookResult) -> list[RepeatedRegion]:
    """Return the repeated regions with a notable or unknown share of the run."""
    return [r for r in result.regions if r.share_ratio is None or r.share_ratio >= WORTH_SAYING]


def region_words(region: RepeatedRegion) -> str:
    """Return a repeated region in words: "12 repeated blocks of 58 nodes"."""
    return f"{region.copies} repeated blocks of {region.n_nodes} nodes"


def structure(result: LookResult) -> list[tuple[str, str]]:
    """Return rows (title, text) on the model's repeated regions."""
    alike: dict[tuple[object, ...], list[RepeatedRegion]] = {}
    for region in _regions(result):
        key = (region.copies, region.n_nodes, *sorted(region.operators.items()))
        alike.setdefault(key, []).append(region)
    rows = []
    for region, *others in list(alike.values())[:TOP_REGIONS]:
        n_groups = 1 + len(others)
        kinds = [f"{n_groups * n} {op}" for op, n in region.operators.items()]
        rest = len(kinds) - TOP_OPERATORS
        more = f", {rest} other {'operator' if rest == 1 else 'operators'}" if rest > 0 else ""
        groups, in_all = (f"{n_groups} groups of ", " in all") if others else ("", "")
        text = f"{groups}{region_words(region)}: {', '.join(kinds[:TOP_OPERATORS])}{more}{in_all}"
        if region.share_ratio is not None:
            of = "operator time" if region.share_from == "profile" else "the estimated operations"
            share = region.share_ratio + sum(other.share_ratio or 0.0 for other in others)
            text += f"; {whole_percent(share)} of {of}"
        rows.append(("structure", text))
    return rows


def timing(result: LookResult) -> list[tuple[str, str]]:
    """Return rows (title, text) on the cost of a run other than its latency."""
    t = result.timing
    if t is None:
        return []
    timed = not finding_words.functional_only(result.findings)
    also = [f"load time {duration(t.load_ns)}"] if timed else []
    in_turn = memory_words.peak_remark(t.peak_in_turn)
    changing = f" ({in_turn})" if in_turn else ""
    also += [f"peak memory {memory(t.peak_bytes)}{changing}"] if t.peak_bytes is not None else []
    also += [f"{operations(t.flops_per_s)}/s"] if t.flops_per_s and timed else []
    plan = result.plan.describe()
    also += [result.runtime.build] if result.runtime else []
    rows = [("also", ", ".join(also))]
    if result.busy and timed:
        rows.append(("busy", f"warning: machine busy ({result.busy}); times are inflated"))
    if result.headroom is not None:
        rows.append(("headroom", result.headroom.sentence))
    rows += [] if plan == "default" else [("with", plan)]
    if t.gpu_run and timed:
        rows.append(("transfer", transfer_words.split(t.gpu_run)))
    elif timed:
        rows += transfer_words.included([result.plan])
    build = result.runtime.build if result.runtime else "this build"
    return rows + [("placement", text) for text in placed_or_why(t.placement, result.plan, build)]


def profile_title(result: LookResult) -> str:
    """Return the title of the table of operators, with the profiler's overhead."""
    profile = result.profile
    if profile is None:
        return ""
    slow = profile.slowdown_ratio
    run = f": {duration(profile.run_ns)}" if profile.run_ns else ""
    if profile.run_ns and slow is not None and slow - 1 > SLOWDOWN_WORTH_SAYING:
        # Its own unprofiled runs, whose time may differ a little from that of the headline.
        run += f", unprofiled {duration(profile.run_ns / slow)}"
        run += ", so shares are rough" if slow >= ROUGH_SLOWDOWN else ""
    text = f"top operators by share of operator time (profiled{run})"
    if any(o.provider in profile_names(lambda p: p.queues) for o in profile.operators):
        text += "; timed on the host, which only queues work for the device"
    return text + ("" if profile.complete else "; the profile was truncated")


def operator_rows(result: LookResult) -> list[tuple[str, str, str, str]]:
    """Return a row (name, share, time per run, number of nodes) for each of the most expensive operators."""
    if result.profile is None:
        return []
    several = len({o.provider for o in result.profile.operators}) > 1
    return [
        (_operator(o, several), whole_percent(o.share_ratio), duration(o.time_ns), _nodes_of(o.n_nodes))
        for o in result.profile.operators[:TOP_OPERATORS]
    ]


ESTIMATED = "top operators, estimated from the graph (operations and bytes, not measured)"


def estimate_rows(result: LookResult) -> list[tuple[str, str, str]]:
    """Return a row (name, share, number of nodes) for each operator with the most estimated work."""
    return [
        (row.op_type, whole_percent(row.share_ratio), _nodes_of(row.n_nodes))
        for row in result.estimate[:TOP_OPERATORS]
    ]


def _operator(row: OperatorTime, several: bool) -> str:
    provider = short_name(row.provider)
    return f"{row.op_type} on {provider}" if several and provider else row.op_type


def _nodes_of(count: int) -> str:
    return amount(count, "node")


def findings(result: LookResult) -> list[str]:
    """Return one sentence for each of the first ``MOST_FINDINGS`` findings, and a count of the others."""
    stands_out = result.findings
    more = len(stands_out) - MOST_FINDINGS
    shown = [finding.sentence() for finding in stands_out[:MOST_FINDINGS]]
    return shown + ([f"{more} more: -v lists them"] if more > 0 else [])


def lesser(result: LookResult) -> list[str]:
    """Return one sentence for each finding after the first ``MOST_FINDINGS``."""
    return [finding.sentence() for finding in result.findings[MOST_FINDINGS:]]


def left_out(result: LookResult) -> str:
    """Return a sentence on the steps that were skipped for lack of time; "" if no step was skipped."""
    return "skipped: " + "; ".join(result.left_out) if result.left_out else ""


def _count(number: int) -> str:
    for unit, scale in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if number >= scale:
            return f"{significant(number / scale)}{unit}"
    return str(number)


def document(envelope: Envelope[LookResult]) -> Document:
    """Return the document of a first look, which fits on one page of a terminal."""
    result = envelope.result
    error = envelope.error
    return Document(
        blocks=[
            Line(headline(result) or (f"not run: {error.what}" if error else ""), "strong"),
            Points(title="findings", items=findings(result), marked=True),
            Pairs(
                title=envelope.model.path if envelope.model else "",
                rows=[
                    *about(result),
                    *structure(result),
                    *timing(result),
                ],
            ),
            table(
                [Column("", "text"), Column(""), Column(""), Column("")],
                operator_rows(result),
                title=profile_title(result),
            ),
            table(
                [Column("", "text"), Column(""), Column("")],
                estimate_rows(result),
                title=ESTIMATED if result.estimate else "",
            ),
            Line(left_out(result), "look"),
            Code(title="next", lines=result.next_commands, commands=True),
        ],
        support=[Points(title="other findings", items=lesser(result), marked=True)],
        dense=True,
    )


STORED = StoredKind(
    result=LookResult,
    document=document,
    headline=lambda result: headline(result) or "not run",
    build=lambda result: result.runtime.build if result.runtime else "",
)
