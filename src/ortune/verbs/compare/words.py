"""Sentences about a comparison, shared by every format."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortune.durations import as_option, in_words
from ortune.printable import amount, visible
from ortune.records import Envelope, Gate, Guard, Host, OutputDifference, Plan, ReadBack, VerdictName
from ortune.show import (
    difference_tables,
    difference_words,
    finding_words,
    others_words,
    sides,
    transfer_words,
)
from ortune.show.answer_commands import compare_line, lines, only_given, report_line, why_line
from ortune.show.checks import GUARD_NAMES, checks, guard_state, noise_words
from ortune.show.document import (
    Annotation,
    Code,
    Column,
    Document,
    Level,
    Line,
    Pairs,
    Points,
    Table,
    Tone,
    stopped,
    table,
)
from ortune.show.numbers import ROOM, change, duration, span
from ortune.show.output_words import by_output
from ortune.show.placement_words import placed
from ortune.show.side_rows import cases, setting, spread
from ortune.show.stored_kind import StoredKind, both_builds
from ortune.verbs.compare import app_words
from ortune.verbs.compare.gate_words import gate
from ortune.verbs.compare.headline import compared, conclusive_after_s, headline, is_wrong
from ortune.verbs.compare.ranking_words import TONES, ranking
from ortune.verbs.compare.result import CompareResult

REASONS = "why, from profiles of both"
"""Heading of the rows in which two profiles differ most."""


def guard(item: Guard) -> str:
    """Return a guard as text: "memory +0.3 % no worse"; it is "undecided" if the interval contains the limit."""
    name = GUARD_NAMES[item.figure]
    if not item.known or item.ratio is None:
        return f"{name} {item.note or 'not known'}"
    return f"{name} {change(item.ratio)} {guard_state(item)}"


def machine(side: str, name: str, host: Host) -> str:
    """Return a side with its machine as text: "B on board (Cortex-A76, 4 CPUs)"."""
    cpus = amount(host.effective_cpus, "CPU")
    return f"{side} on {name or 'this machine'} ({visible(host.cpu)}, {cpus})"


def details(result: CompareResult) -> list[tuple[str, str]]:
    """Return (label, text) rows that support the headline: settings, guards, noise, findings, notes, failures."""
    candidates = [(f"{c.name}: ", c.read_back, c.side) for c in result.candidates]
    rows = [
        ("settings", name + "; ".join(setting(r, side.plan) for r in read_back))
        for name, read_back, side in candidates or [("", result.read_back, result.new)]
        if read_back
    ]
    if result.comparison:
        rows.append(("statistic", result.comparison.statistic))
        rows.append(("guards", ", ".join(guard(g) for g in result.comparison.guards)))
        rows.append(
            ("noise", noise_words(result.controls, result.comparison.n_dropped if result.comparison else 0))
        )
    rows += finding_words.rows(result.findings)
    for name, _, side in [("A: ", (), result.base), *(candidates or [(f"{result.name}: ", (), result.new)])]:
        rows += [("placement", f"{name}{text}") for text in placed(side.placement)]
    rows += [("note", text) for text in result.notes]
    rows += [("failed", f"one trial ({f.reason}): {f.what}") for f in result.failures]
    return [(name, text) for name, text in rows if text]


def blocks_within(
    trial_ns: float, turns: str, n_blocks: int, budget_s: float, *, controlled: bool, least: int
) -> str:
    """Return a sentence with the duration of a trial and the number of blocks that fit in the budget.

    A claim needs at least ``least`` blocks.
    """
    blocks = f"up to {n_blocks} blocks"
    if not controlled:
        count = "one block" if n_blocks == 1 else f"{n_blocks} blocks"
        blocks = (
            f"{count}, {'controls not run' if n_blocks >= least else f'too few for a claim ({least} needed)'}"
        )
    return f"each trial takes {trial_ns / 1e9:.2f} s ({turns}); {in_words(budget_s)} allow {blocks}"


def progress(n_blocks: int, *, calibrating: bool, controlled: bool) -> str:
    """Return the number of the running block and whether the block includes controls, as text."""
    if calibrating:
        return (
            f"calibrating, block {n_blocks}"
            if controlled
            else f"comparing without controls, block {n_blocks}"
        )
    return f"comparing, block {n_blocks}"


def so_far(standing: Sequence[tuple[str, float, float, float]]) -> list[str]:
    """Return one line per side with its current change against A and the limits of the interval."""
    return [
        f"{name} against A so far: {change(ratio)} ({span(low, high)})" for name, ratio, low, high in standing
    ]


MOST_CAUSES = 2
MOST_OPERATORS = 3
_BLOCKED = "com.microsoft.nchwc:"


def document(envelope: Envelope[CompareResult]) -> Document:
    """Return the document of a comparison: the result, and with ``--verbose`` the evidence."""
    result = envelope.result
    if result.app is not None:
        return app_words.document(envelope)
    why = difference_words.brief(result.why) if result.why is not None else []
    # A profile without a difference does not refute a difference that was proven by timing.
    first = 0 if result.why is None or difference_tables.no_difference(result.why) else 1
    return Document(
        title=f"ortune compare: {result.base.label} against {result.new.label}",
        blocks=[
            *(Line(line, "strong") for line in gate(result)),
            *stopped(envelope),
            Line(headline(result), _tone(result)),
            *(
                [Line(f"a comparison of machines: {'; '.join(result.machines)}", "look")]
                if result.machines
                else []
            ),
            *others_words.lines(compared(result)),
            _figures(result),
            cases(result.cases, "A", result.name, f"{result.name} against A"),
            # The error is printed next to the speed if it exceeds rounding.
            *([] if result.outputs.ok and not result.outputs.asked else [by_output(result.outputs)]),
            Pairs(rows=_side_rows(result)),
            Pairs(rows=_transfer(result)),
            *_checks(result),
            Pairs(
                rows=[
                    ("" if i else "why", line)
                    for i, line in enumerate(
                        [*why[:first], *_became(result), *_causes(result), *_operators(result)]
                    )
                ]
            ),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        support=[
            Pairs(rows=details(result)),
            table(
                [Column("", "label"), Column("A", "text"), Column(result.name, "text")], _more_rows(result)
            ),
            Points(items=why[first:], title=REASONS),
        ],
        annotations=_annotations(result),
    )


def _transfer(result: CompareResult) -> list[tuple[str, str]]:
    """Return (label, text) rows that say for each device whether times include transfers; [] if nothing was timed."""
    plans = (result.base.plan, *(candidate.side.plan for candidate in result.candidates), result.new.plan)
    return transfer_words.included(plans) if result.comparison is not None else []


def _became(result: CompareResult) -> list[str]:
    """Return lines that name the operators that replaced others, with their fraction of the difference."""
    if result.why is None:
        return []
    sentences = (
        difference_words.operator_change(result.why, result.name),
        difference_words.of_eight_bits(result.why, result.name),
    )
    return [sentence for sentence in sentences if sentence]


def _operators(result: CompareResult) -> list[str]:
    """Return lines with the operators that differ between the optimised graphs; [] if none were recorded."""
    if not result.operators:
        return []
    shown = [
        f"{row.a} {_operator(row.name)} in A, {row.b or 'none'} in {result.name}"
        if row.a
        else f"{row.b} {_operator(row.name)} in {result.name}, none in A"
        for row in result.operators[:MOST_OPERATORS]
    ]
    more = len(result.operators) - len(shown)
    rest = f"; {more} more operators differ" if more > 1 else "; 1 more operator differs" if more else ""
    return [f"the optimised graphs differ, whatever the times: {'; '.join(shown)}{rest}"]


def _operator(name: str) -> str:
    """Return an operator's name without ONNX Runtime's domain: "FusedConv", "Conv in blocked layout"."""
    if name.startswith(_BLOCKED):
        return f"{name.removeprefix(_BLOCKED)} in blocked layout"
    return name.removeprefix("com.microsoft:")


def _causes(result: CompareResult) -> list[str]:
    """Return lines with the findings that apply only to the slower side."""
    slower = "A" if result.comparison is not None and result.comparison.verdict == "faster" else result.name
    return [f"only in {slower}: {f.sentence()}" for f in result.causes[:MOST_CAUSES]]


def _figures(result: CompareResult) -> Table:
    """Return a table with one row per statistic for two sides, or one row per side for several."""
    if result.candidates:
        return ranking(result)
    a, b, c = result.base_figures, result.new_figures, result.comparison
    if a is None or b is None or c is None:
        return table((), ())
    return sides.sides_table([("A", a), (result.name, b)], c.statistic, c, "A")


def _side_rows(result: CompareResult) -> list[tuple[str, str]]:
    """Return (label, text) rows on how A and B differ in model, plan and runtime; [] for several sides."""
    a, b = result.base, result.new
    if result.candidates or result.comparison is None:
        return []
    texts = [
        (a.label, b.label),
        (a.plan.describe(), _plan_words(b.plan, result.read_back)),
        (a.runtime.build, b.runtime.build),
    ]
    # Properties that both sides share are left out; two copies of one model are told apart by their names.
    pairs = [pair for pair in texts if pair[0] != pair[1]] or texts[:1]
    return [("A", ", ".join(pair[0] for pair in pairs)), (result.name, ", ".join(pair[1] for pair in pairs))]


def _plan_words(plan: Plan, read_back: Sequence[ReadBack]) -> str:
    """Return a plan as text that also says whether each setting took effect."""
    read = {item.knob: setting(item, plan) for item in read_back}
    parts = [read.get(name.partition("=")[0], name) for name in plan.describe().split(", ")]
    return "; ".join(parts) if read else plan.describe()


def _checks(result: CompareResult) -> list[Line]:
    n = len(result.failures)
    failed = f"{amount(n, 'trial')} failed (-v)" if n else ""
    unread = [r.knob for item in _read_backs(result) for r in item if not r.ok]
    arrived = f"not applied: {', '.join(unread)}" if unread else ""
    if result.comparison is None:
        # Without times, the findings on where the nodes ran are shown.
        software = finding_words.functional_only(result.findings)
        said = [*finding_words.caveats(result.findings), *(result.notes if software else ())]
        return [Line(text, "look") for text in said]
    return checks(result.controls, result.comparison, result.findings, failed, arrived)


def _read_backs(result: CompareResult) -> list[Sequence[ReadBack]]:
    return [c.read_back for c in result.candidates] or [result.read_back]


def _next(envelope: Envelope[CompareResult]) -> list[str]:
    """Return commands to run next: to reach a conclusion, to profile, and to show details."""
    result = envelope.result
    c, work = result.comparison, envelope.workload
    again: list[str] = []
    open_question = result.enough_s or (c and c.verdict == "inconclusive")
    quiet = others_words.wait_options(c)
    if (open_question or quiet) and not result.candidates and not result.machines:
        said = work and only_given(work)
        again = compare_line(
            result.base,
            result.new,
            said,
            c.statistic if c else "",
            result.notes,
            reproduce=result.reproduce,
        )
        # On a busy machine more time is unlikely to settle it.
        longer = open_question and (bool(result.enough_s) or not others_words.hidden(c))
        more = [*(_longer(result) if longer else []), *quiet]
        again += [*_accepting(result.outputs), *_of_gate(result.gate), *more] if again else []
    why = () if result.machines else why_line(result.base, result.new, work)
    return lines(again, why, report_line(result.session, envelope.store))


def _accepting(compared: OutputDifference) -> list[str]:
    """Return the user's tolerance and metric as command-line options, so that a rerun accepts the same outputs."""
    limit = compared.asked or ("" if compared.tolerance is None else f"{compared.tolerance:.12g}")
    metric = ["--metric", compared.judged_by] if compared.judged_by else []
    return [*metric, "--tolerance", limit] if limit else []


def _of_gate(gate: Gate | None) -> list[str]:
    """Return the command-line options that define the gate, so that a rerun fails on the same regressions."""
    if gate is None:
        return []
    counts = ["--undecided", "fail"] if gate.undecided_counts_as == "fail" else []
    return ["--threshold", f"{100 * gate.threshold_ratio:.12g}%", *counts]


def _longer(result: CompareResult) -> list[str]:
    """Return a sufficient budget as a command-line option; ten minutes if it is unknown."""
    c = result.comparison
    # An open interval needs the time that the headline names; a claim in the first place needs room to spare.
    told_s = max(result.elapsed_s, result.budget_s) + c.more_s if c is not None and c.more_s else 0.0
    enough_s = max(
        ROOM * (result.enough_s or 0.0), conclusive_after_s(result) or (0.0 if result.enough_s else told_s)
    )
    return ["--budget", as_option(10 * math.ceil(enough_s / 10)) if enough_s else "10m"]


def _more_rows(result: CompareResult) -> list[tuple[str, str, str]]:
    """Return further rows (label, value of A, value of B), with medians over trials."""
    a, b = result.base_figures, result.new_figures
    if a is None or b is None:
        return []
    rows = [("first run", duration(a.first_run_ns), duration(b.first_run_ns))]
    if a.spread_ratio and b.spread_ratio:
        rows.append(("p90 / p10 in a process", spread(a), spread(b)))
    return rows


def _tone(result: CompareResult) -> Tone:
    if is_wrong(result):
        return "bad"
    untimed: VerdictName = "inconclusive" if result.outputs.comparable else "wrong-output"
    tone = TONES[result.comparison.verdict if result.comparison else untimed]
    # A faster side with different outputs or without controls is not marked as good: the user has to judge it.
    doubtful = not result.outputs.ok or not result.controls or others_words.doubts(result.comparison)
    return "unsure" if tone == "good" and doubtful else tone


def _annotations(result: CompareResult) -> list[Annotation]:
    """Return an annotation for the headline and one for each finding."""
    timed = result.comparison is not None
    level: Level = (
        "notice" if timed and result.outputs.ok else "warning" if result.outputs.comparable else "error"
    )
    gates = [g for g in (result.gate, *(c.gate for c in result.candidates)) if g is not None]
    if gates:
        answers = {g.counted for g in gates}
        undecided = any(g.answer == "undecided" for g in gates)
        level = "error" if answers & {"fail", "no-answer"} else "warning" if undecided else "notice"
    others = [line.text for line in others_words.lines(compared(result))]
    text = [*gate(result), headline(result), *others]
    return [
        Annotation(level=level, title=f"ortune: {result.new.label}", lines=text),
        *finding_words.to_annotate(result.findings),
    ]


STORED = StoredKind(
    result=CompareResult,
    document=document,
    headline=headline,
    build=lambda result: both_builds(result.base.runtime.build, result.new.runtime.build),
)
