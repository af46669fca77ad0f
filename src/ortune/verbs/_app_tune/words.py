"""Text and document of ``ortune tune`` on a recording."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ortune.catalogue import knobs
from ortune.catalogue.providers import short_name
from ortune.durations import as_option
from ortune.printable import operand
from ortune.records import AppRatio, Envelope, assignment
from ortune.search.application import MEMORY_WORSE
from ortune.show.document import Block, Code, Column, Document, Line, Pairs, Points, Tone, stopped, table
from ortune.show.numbers import counted, memory
from ortune.show.stored_kind import StoredKind
from ortune.stats.arrivals import FULL_SHARE
from ortune.verbs._app_bench.words import left_out, missing, plan, played_by, player
from ortune.verbs._app_tune.result import AppCandidate, AppConfirmation, AppTuneResult

__all__ = ["STORED", "changes", "document", "headline", "left_out", "missing", "plan", "played_by", "readme"]
SHARE = "one session for equal requests"


def changes(result: AppTuneResult) -> str:
    """Return the kept changes as text: "one session for equal requests, allow_spinning=0"."""
    parts = [SHARE] if result.share else []
    changed = result.settings.items() - result.current.items()
    parts += [assignment(name, value) for name, value in sorted(changed)]
    parts += [f"{name}={value}" for name, value in sorted(result.variables.items())]
    parts += [_placed(model, provider) for model, provider in sorted(result.providers.items())]
    parts += [_rewritten(model.name, model.rewrites) for model in result.models]
    return ", ".join(parts)


def _placed(model: str, provider: str) -> str:
    return f"{model} on {short_name(provider)}"


def _rewritten(model: str, rewrites: Sequence[str]) -> str:
    return f"{model} rewritten ({', '.join(rewrites)})"


def headline(result: AppTuneResult) -> str:
    """Return the headline: the result in one sentence."""
    if result.verdict == "generator":
        late = f"calls started late, by {100 * (result.late_share or 0):.0f} % of the latency"
        return f"{result.label}: no answer: {late}; use a lower --rate or a machine with a free CPU"
    confirmed = result.confirmation
    said = _unconfirmed(result) if confirmed is None else _judged(result, confirmed)
    return f"{result.label}: {said}"


def _unconfirmed(result: AppTuneResult) -> str:
    if result.verdict == "not-shown" and result.findings:
        return f"no change of sessions saves 2 % or more, but {result.findings[0].what}"
    if result.verdict == "not-shown":
        tried = counted(len(result.candidates), "change")
        return f"no gain found; {tried} tried, none saves 2 % or more"
    if result.verdict == "nothing-tested" and not result.enough_s:
        return "nothing to try: it creates no session twice, and no session has threads of its own"
    budget = f"--budget {as_option(result.enough_s)}"
    if result.verdict == "nothing-tested":
        return f"nothing was tested; use {budget}"
    return f"inconclusive: {changes(result)} could not be confirmed within the budget; rerun with {budget}"


def _judged(result: AppTuneResult, confirmed: AppConfirmation) -> str:
    what = changes(result)
    if result.verdict == "invalid":
        return "no answer: the A/A check failed, so the machine is too noisy; rerun on a quieter machine"
    if result.verdict == "wrong-output" and confirmed.outputs is not None:
        return f"{what} changes outputs: {confirmed.outputs.what}"
    cpu = f"CPU time {_times(confirmed.cpu)}"
    figures = cpu if result.busy else f"{_wall(result)} {_times(confirmed.wall)}; {cpu}"
    told = {
        "faster": f"{what}: {figures}; outputs {_outputs(confirmed)}",
        "not-shown": f"no gain confirmed: {what}: {figures}",
    }
    return told.get(result.verdict, f"inconclusive: {what}: {figures}; a longer --budget gives more blocks")


def _wall(result: AppTuneResult) -> str:
    """Return the name of the figure besides CPU time."""
    return "latency" if result.arrival else "time in ONNX Runtime"


def _times(ratio: AppRatio) -> str:
    """Return a ratio with its interval as text: "x0.43 (95 % interval 0.41 to 0.45)"."""
    if ratio.low is None or ratio.high is None:
        return f"x{ratio.value:.2f} (too few blocks for an interval)"
    return f"x{ratio.value:.2f} (95 % interval {ratio.low:.2f} to {ratio.high:.2f})"


def _outputs(confirmed: AppConfirmation) -> str:
    if confirmed.outputs is None:
        return "not compared"
    same = not confirmed.outputs.relative_l2 and not confirmed.outputs.max_error
    return "identical" if same else f"equal within {confirmed.outputs.relative_l2:.1g}"


def document(envelope: Envelope[AppTuneResult]) -> Document:
    """Return the document: the result, the tested changes, and how to apply the kept changes."""
    result = envelope.result
    tone: Tone = "good" if result.verdict == "faster" else "look"
    blocks: list[Block] = [
        *stopped(envelope),
        Line(result.headline, tone),
        *_confirmed(result),
        *_candidates(result),
        *_findings(result),
        Pairs(rows=list(_facts(result))),
    ]
    lines = list(_next(result))
    blocks += [Code(title="next", lines=lines, commands=True)] if lines else []
    return Document(
        title=f"ortune tune: {result.label}", blocks=blocks, support=[Pairs(rows=list(_details(result)))]
    )


def _confirmed(result: AppTuneResult) -> list[Block]:
    confirmed = result.confirmation
    if confirmed is None:
        return []
    columns = [
        Column("", "label"),
        Column("changed / recorded"),
        Column("95 % interval", "text"),
        Column("A/A", "text"),
    ]
    rows = [
        [name, f"x{ratio.value:.2f}", _span(ratio), _span(same)]
        for name, ratio, same in (
            ("CPU time", confirmed.cpu, confirmed.same_cpu),
            (_wall(result), confirmed.wall, confirmed.same_wall),
        )
    ]
    if confirmed.memory is not None:
        change = confirmed.memory
        rows.append([
            "peak memory",
            f"x{change.after_bytes / max(1, change.before_bytes):.2f}",
            f"{memory(change.before_bytes)} to {memory(change.after_bytes)}",
            "",
        ])  # fmt: skip
    return [table(columns, rows)]


def _span(ratio: AppRatio) -> str:
    return "-" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f} to {ratio.high:.2f}"


def _candidates(result: AppTuneResult) -> list[Block]:
    if not result.candidates:
        return []
    heads = ("tried, in this order", "CPU time", _wall(result), "")
    rows = [
        [
            _named(each),
            "-" if each.cpu is None else f"x{each.cpu.value:.2f}",
            "-" if each.wall is None else f"x{each.wall.value:.2f}",
            f"failed: {each.why}" if each.status == "failed" else each.status,
        ]
        for each in result.candidates
    ]
    return [table([Column(head, "text") for head in heads], rows)]


def _findings(result: AppTuneResult) -> list[Block]:
    items = [
        f"{finding.code} {finding.what} -> {finding.fix} ({finding.evidence})" for finding in result.findings
    ]
    return [Points(items=items, title="findings, confirmed by the replay", marked=True)] if items else []


FORMS = {
    "lists": "arrays instead of lists",
    "strides": "contiguous arrays",
    "batches": "one call for up to 8 single calls",
}


def _named(candidate: AppCandidate) -> str:
    if candidate.form:
        return FORMS[candidate.form]
    if candidate.provider:
        return _placed(candidate.model, candidate.provider)
    if candidate.model:
        return _rewritten(candidate.model, candidate.rewrites)
    parts = [SHARE] if candidate.share else []
    return ", ".join(parts + [assignment(name, value) for name, value in sorted(candidate.settings.items())])


def _facts(result: AppTuneResult) -> Iterator[tuple[str, str]]:
    if result.current:
        settings = ", ".join(assignment(name, value) for name, value in sorted(result.current.items()))
        yield "current", f"{settings}, instead of the recorded settings"
    if result.busy and result.used_cpus is not None:
        yield "machine", f"other programs used {result.used_cpus:.1f} CPUs, so CPU time alone decides"
    confirmed = result.confirmation
    if confirmed is not None and confirmed.memory is not None:
        change = confirmed.memory
        if change.after_bytes > (1 + MEMORY_WORSE) * change.before_bytes:
            yield "memory", f"rises from {memory(change.before_bytes)} to {memory(change.after_bytes)}"
    if result.verdict == "faster":
        threads = [name for name in sorted(result.settings) if knobs.find(name).under_load]
        if result.busy and threads:
            yield (
                "threads",
                f"on a machine without other programs, calls may take longer with {', '.join(threads)}: tune there too",
            )
        yield (
            "measured",
            "ONNX Runtime's part alone; the work of the application between its calls is not played",
        )
    if confirmed is not None and (confirmed.offered_before or 0) > FULL_SHARE:
        after = "can" if (confirmed.offered_after or 0) <= FULL_SHARE else "cannot either"
        yield (
            "rate",
            f"cannot be served with the recorded settings, and with the changes it {after}; if a queue grows, latency "
            "depends on the duration",
        )
    for model in result.models:
        if model.guarded:
            yield "only for its shape", f"{model.name}: calls with other shapes go to the original model"
    if result.variables and result.verdict == "faster":
        lines = ", ".join(f"ENV {name}={value}" for name, value in result.variables.items())
        yield "without ortune", f"the same by a line in the Dockerfile: {lines}"
    for note in result.notes:
        yield "note", note
    if result.bundle:
        yield "bundle", result.bundle


def _next(result: AppTuneResult) -> Iterator[str]:
    if result.bundle:
        program = shlex.join(result.command) or "COMMAND"
        yield f"ortune run --with {operand(result.bundle)} -- {program}"
    elif result.enough_s:
        yield f"ortune tune {operand(result.label)} --budget {as_option(result.enough_s)}"


def _details(result: AppTuneResult) -> Iterator[tuple[str, str]]:
    played = plan(result.played, result.arrival, result.rate_per_s).removeprefix("playing ")
    yield "played", f"{played}; {counted(result.n_plays, 'time')}"
    confirmed = result.confirmation
    if confirmed is not None:
        yield "confirmed", f"{counted(confirmed.cpu.n_blocks, 'fresh block')}, none of them from the search"
    yield "runtime", player(result.runtime)
    yield "again", result.reproduce


def readme(result: AppTuneResult) -> str:
    """Return the text of the bundle's README."""
    program = shlex.join(result.command) or "COMMAND"
    return (
        f"# Changes for an application\n\n{headline(result)}\n\nRun it with them:\n\n"
        f"    ortune run --with THIS_FOLDER -- {program}\n\n"
        "`ortune.json` has the changes; sessions are found by the sha256 of their models.\n"
    )


STORED = StoredKind(
    result=AppTuneResult,
    document=document,
    headline=lambda result: result.headline,
    build=lambda result: result.runtime.build,
)
