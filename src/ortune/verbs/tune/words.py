"""Sentences about the result of a tuning, shared by every format."""

from __future__ import annotations

import msgspec

from ortune.durations import as_option
from ortune.printable import operand, visible
from ortune.records import BUSY_MACHINE, NO_TIME, WORSENS, Candidate, Envelope, Figures, Finding, Plan
from ortune.show import finding_words, others_words, precision_words
from ortune.show import sides as two_sides
from ortune.show.answer_commands import change_line, lines, profile_line, report_line, with_budget, words_of
from ortune.show.checks import checks
from ortune.show.document import Annotation, Code, Column, Document, Line, Pairs, Table, Tone, stopped, table
from ortune.show.numbers import change, duration, span, times
from ortune.show.placement_words import places
from ortune.show.side_rows import cases, spread
from ortune.show.stored_kind import StoredKind, both_builds
from ortune.verbs._shared import within_memory_words
from ortune.verbs._shared.tune_facts import (
    base_name,
    certainty,
    current_plan,
    deciding,
    deciding_claim,
    default_name,
    fixed_findings,
    is_in_winner,
    keeps_current,
    measured_right,
    nothing_tested,
    only_corrects,
    plans_that_ran,
    untried_plans,
    winner_precision,
)
from ortune.verbs._shared.tune_headline import (
    acceptance,
    bundled,
    headline,
    leading,
    limits,
    other_package,
    outputs,
)
from ortune.verbs.tune import adoption_words
from ortune.verbs.tune.details import (
    TRADE,
    details,
    more_time,
    setting,
    trade_rows,
    untested_target,
    where_kept,
)
from ortune.verbs.tune.result import TuneResult

EXPLORED = 10
WRONG_DEFAULT = "wrong default"
"""Name of a default with wrong outputs, which is timed but not part of any comparison."""


def figures_table(result: TuneResult) -> Table:
    """Return a table of statistics with columns for the default, the current plan, and the winner or leader."""
    default = default_name(result)
    columns = [(default, result.default_figures)]
    if result.wrong_default_figures is not None:
        columns.insert(0, (WRONG_DEFAULT, result.wrong_default_figures))
    now = current_plan(result)
    if now is not None and result.current_figures:
        columns.append((base_name(result), result.current_figures))
    comparison, base = None, base_name(result)
    if result.winner_figures and result.winner not in (result.default, now):
        columns.append(("winner", result.winner_figures))
        comparison = deciding(result)
    elif now is not None and result.winner == result.default:
        # The answer is a change to the default, so the default is compared with the current configuration.
        columns = [columns[-1], *columns[:-1]]
        comparison = result.against_current
    elif result.refused is not None and result.refused.figures is not None:
        columns.append(("leader", result.refused.figures))
        comparison = result.refused.comparison
    return two_sides.sides_table(
        columns, result.statistic, comparison, base if base in dict(columns) else default
    )


def sides(result: TuneResult) -> list[tuple[str, ...]]:
    """Return the table of statistics as rows of text, headings first, with further statistics of each side."""
    shown = figures_table(result)
    heads = tuple(column.head for column in shown.columns)
    figures: list[Figures] = []
    for name in heads[1:]:
        side = {
            default_name(result): result.default_figures,
            WRONG_DEFAULT: result.wrong_default_figures,
            "current": result.current_figures,
        }.get(name)
        side = result.winner_figures if name == "winner" else side
        side = result.refused.figures if name == "leader" and result.refused else side
        figures += [side] if side else []
    rows = [heads, *(tuple(cell.text for cell in row) for row in shown.rows)]
    blank = [""] * (len(heads) - 1 - len(figures))
    rows.append(("first run", *(duration(f.first_run_ns) for f in figures), *blank))
    if all(f.spread_ratio for f in figures):
        rows.append(("p90 / p10 in a process", *(spread(f) for f in figures), *blank))
    return rows


def _status_words(candidate: Candidate) -> str:
    """Return the status of a configuration that was measured but not confirmed, as text."""
    if candidate.reason != "guard":
        return "exploratory, unconfirmed"
    return f"exploratory, rejected: {candidate.why.removeprefix(f'{WORSENS}: ') or WORSENS}"


def explored(result: TuneResult) -> Table:
    """Return a table of the configurations of an exploratory search, fastest first; no rows for other searches."""
    ran = measured_right(result.candidates)
    if not result.budget.exploratory:
        ran = []
    ran.sort(key=lambda c: c.ratio or 1.0)
    columns = [Column("configuration", "text"), Column("speed-up"), Column("blocks"), Column("", "text")]
    rows = [
        (
            c.plan.describe(),
            times(1 / (c.ratio or 1.0)) if c.n_blocks > 1 else "",
            str(c.n_blocks),
            _status_words(c),
        )
        for c in ran[:EXPLORED]
    ]
    more = len(ran) - len(rows)
    notes = [f"{more} more: ortune report -v lists them"] if more > 0 else []
    if ran and (n_unmeasured := len(plans_that_ran(result.candidates)) - len(ran)):
        notes.append(f"{n_unmeasured} more failed or had wrong outputs (-v lists them)")
    return table(columns, rows, notes=notes)


def document(envelope: Envelope[TuneResult]) -> Document:
    """Return the document of a tuning: the result with the code to paste, and the evidence for ``--verbose``."""
    result = envelope.result
    said = result.headline or headline(result)
    heads, *rows = sides(result)
    extra = [row for row in rows if row[0] in ("first run", "p90 / p10 in a process")]
    columns = [Column("", "label"), *(Column(head) for head in heads[1:])]
    return Document(
        title=f"ortune tune: {result.side.label}",
        blocks=[
            *stopped(envelope),
            Line(said, _tone(result)),
            Line(other_package(result), "good"),
            Line(precision_words.made_by(result.made_by)),
            *(Line(text, "look") for text in limits(result)),
            figures_table(result),
            within_memory_words.tried(result),
            Pairs(
                rows=[
                    *adoption_words.rows(result),
                    *adoption_words.other_providers(result),
                    *adoption_words.transfer(result),
                ]
            ),
            explored(result),
            precision_words.side_by_side(result.precision),
            places(result.places),
            cases(result.cases, base_name(result), "winner", "change"),
            Pairs(rows=[("why", text) for text in causes(result)]),
            *_checks(result),
            Line(result.rejected),
            Line(untested(result), "faint"),
            Line(result.budget.unspent, "faint"),
            Pairs(rows=[("bundle", bundled(result))] if result.bundle else []),
            Code(title="to paste", lines=() if stays(result) else code_lines(result.code)),
            Code(title="next", lines=next_commands(envelope), commands=True),
        ],
        support=[
            Pairs(rows=details(result)),
            table(columns, extra),
            table(TRADE, trade_rows(result, figures_table(result))),
            Pairs(rows=where_kept(result)),
        ],
        annotations=[
            Annotation(level="notice", title=f"ortune: {result.side.label}", lines=[said, *limits(result)]),
            *finding_words.to_annotate(result.findings),
        ],
    )


def stays(result: TuneResult) -> bool:
    """Return whether the user's current configuration needs no change."""
    return keeps_current(result) and not only_corrects(result)


def causes(result: TuneResult) -> list[str]:
    """Return sentences on findings about the file that a rewrite fixes, each with the rewrite's measured gain."""
    by_plan: dict[str, list[Finding]] = {}
    for finding in fixed_findings(result):
        by_plan.setdefault((finding.plan or Plan()).id, []).append(finding)
    sentences = []
    for findings in by_plan.values():
        comparison, plan = findings[0].verified, findings[0].plan or Plan()
        is_shipped = is_in_winner(result, plan)
        # Without a change there is no winner, so "not part of the winner" would be wrong.
        no_part = [] if keeps_current(result) else ["not part of the winner"]
        where = ["part of the winner"] if is_shipped else no_part
        if comparison is None:
            safety = findings[0].safety
            if not is_shipped and safety in ("numerics", "behaviour") and safety not in result.allowed:
                prize = f"not tested, because it is not exact (--allow {safety} tests it)"
            else:
                prize = ", ".join(["not measured separately", *where])
        else:
            has_interval = comparison.ratio_high is not None
            interval = f" ({span(comparison.ratio_low, comparison.ratio_high)})" if has_interval else ""
            alone = f"alone {change(comparison.ratio)}{interval} in the search"
            if comparison.n_blocks < 2:
                alone = "measured alone in a single block, which shows nothing"
            prize = "; ".join([alone, *where])
        named = "; ".join(f"{finding.code} {finding.what}" for finding in findings)
        sentences.append(f"{named} -> {plan.describe()}: {prize}")
    return sentences


def _checks(result: TuneResult) -> list[Line]:
    """Return lines on the limits of the claim; [] if nothing was compared."""
    comparison = deciding(result) or (result.refused.comparison if result.refused else None)
    more = [outputs(result)] if result.outputs is not None and not result.outputs.ok else []
    unread = [setting(s) for s in result.settings if s.kept and s.value and s.read_back == "none"]
    more += [f"not verified: {', '.join(unread)}"] if unread else []
    return checks(result.controls, comparison, result.findings, *more, allowed=result.allowed)


def untested(result: TuneResult) -> str:
    """Return a sentence on the number of untested plans and how to list them; "" if all were tested."""
    no_time = sum(row.why == NO_TIME for row in result.precision)
    enough_s = result.budget.enough_s
    enough = f" (--budget {as_option(enough_s)} is enough)" if enough_s else ""
    counts = (
        (len(untried_plans(result.candidates)) + no_time, f"for lack of time{enough}"),
        (len(result.not_tried), "not possible or allowed here"),
    )
    parts = [f"{n} {why}" for n, why in counts if n]
    first = [f"not tested: {', '.join(parts)} (-v lists them)"] if parts else []
    # After the words "not tested", the name of a target is enough.
    rest = [
        f"{target.target} ({more_time(target)})"
        if parts and target.reason == "no-time"
        else untested_target(target)
        for target in result.untested_targets
    ]
    return "; ".join([*first, *rest])


def next_commands(envelope: Envelope[TuneResult]) -> list[str]:
    """Return commands to run next: to confirm the winner, to find more, and to show the details."""
    result = envelope.result
    more: list[str] = []
    if result.budget.enough_s:
        more = with_budget(result.reproduce, result.budget.enough_s)
    prove = (
        ["ortune", "compare", operand(result.bundle)] if result.bundle and not keeps_current(result) else []
    )
    ran = msgspec.structs.replace(result.side, plan=result.default)  # no profile of a browser
    why = profile_line(ran, envelope.workload) if keeps_current(result) else []
    unproven = [
        f.plan for f in fixed_findings(result) if f.plan is not None and not is_in_winner(result, f.plan)
    ]
    leader = leading(result)
    # The first command confirms the leading plan.
    ahead = [leader.plan] if leader is not None and leader.plan != result.default else unproven
    measure = [change_line(result.reproduce, result.default, plan) for plan in ahead[:1]]
    fewer = []
    settled = keeps_current(result) and not nothing_tested(result) and not result.budget.exploratory
    if settled and not result.allowed and not (result.refused and result.refused.lossy):
        again = more or words_of(result.reproduce)
        fewer = [*again, *(acceptance(result) or ["--allow", "numerics"])] if again else []
    quiet = others_words.wait_options(deciding_claim(result)) or _quiet(result)
    if quiet and (again := more or words_of(result.reproduce)):
        more = [*again, *quiet]
    return lines(*measure, more, prove, fewer, why, report_line(result.session, envelope.store))


def _quiet(result: TuneResult) -> list[str]:
    """Return the options to wait for a quiet machine, if the machine was busy and nothing was compared."""
    busy = result.others is not None or result.conditions == BUSY_MACHINE
    return list(others_words.WAIT) if busy and deciding_claim(result) is None else []


def _tone(result: TuneResult) -> Tone:
    comparison = deciding(result)
    if comparison is not None and comparison.verdict == "faster" and comparison.phase == "confirm":
        unsure = result.calibration is not None and not result.calibration.final and winner_precision(result)
        return (
            "unsure"
            if unsure or others_words.doubts(comparison) or any(g.failed for g in comparison.guards)
            else "good"
        )
    return "strong" if certainty(result) in ("best", "no-change") else "unsure"


def code_lines(code: str) -> list[str]:
    """Return the lines of the code to paste, with unprintable characters escaped."""
    return [visible(line) for line in code.strip("\n").splitlines()]


STORED = StoredKind(
    result=TuneResult,
    document=document,
    headline=lambda result: result.headline or headline(result),
    build=lambda result: both_builds(
        result.side.runtime.build, (result.runtime or result.side.runtime).build
    ),
)
