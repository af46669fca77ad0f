"""Sentences on why a model is slow: confirmed gains first, then the fixes that were not measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ortune.durations import as_option
from ortune.printable import amount, amounts
from ortune.records import Comparison, Envelope, Finding
from ortune.show import finding_words, memory_words, others_words, sides, transfer_words
from ortune.show import headline as heads
from ortune.show.answer_commands import lines, report_line, with_budget, words_of
from ortune.show.checks import control_problem
from ortune.show.document import (
    Annotation,
    Block,
    Cell,
    Code,
    Column,
    Document,
    Line,
    Pairs,
    Points,
    Tone,
    stopped,
    table,
)
from ortune.show.numbers import change, enough, memory, span, whole_percent
from ortune.show.stored_kind import StoredKind
from ortune.verbs._shared.tune_headline import LONGEST_PLAN
from ortune.verbs.diagnose import page_words
from ortune.verbs.diagnose.result import DiagnoseResult, TriedFix

_VERDICTS = {
    "faster": "verified",
    "slower": "slower",
    "equivalent": "does not help",
    "inconclusive": "inconclusive",
}
NAMED = 3
MOST_BY_HAND = 3


STOPPED = "stopped before it was measured"
TOO_SMALL = "not measured: budget too small"
"""Prefix of the reasons that say that a fix was not measured for lack of time."""
NOT_TIMED = "runs, outputs correct; not timed"
NO_CONTROLS = "controls not run for lack of time, so no difference is claimed"
CONFLICT = "the fixes conflict, so each is measured alone"


def testing(codes: Sequence[str]) -> str:
    """Return the name of the step that tests the fix for findings."""
    return f"testing the fix for {', '.join(codes)}"


def not_raced(n: int, total: int, why: str) -> str:
    """Return how many of all fixes are not measured, with the reason."""
    return f"{n} of {total} fixes {why}"


def no_time(needed_s: float) -> str:
    """Return a reason that says that the budget was too small to measure a fix, with a sufficient budget."""
    return f"{TOO_SMALL} ({enough(needed_s)} is enough)"


def not_made(why: str) -> str:
    """Return a reason that says that the model of a fix could not be made."""
    return f"could not be created: {why}"


def does_not_run(why: str) -> str:
    """Return a reason that says that the model of a fix does not run."""
    return f"does not run: {why}"


def moves_outputs(how: str) -> str:
    """Return a reason that says that a fix changes the outputs."""
    return f"changes the outputs: {how}"


def headline(result: DiagnoseResult) -> str:
    """Return one sentence with the largest confirmed gain.

    Without a confirmed gain, the sentence contains the best measured fix or the first step to take.
    """
    if result.page is not None:
        return page_words.headline(result.page)
    best = _best(result)
    if best is not None and best.comparison is not None:
        return _gain_headline(result, best, best.comparison, f"with {_named(best)}")
    number = amount(len(result.findings), "finding")
    if finding_words.functional_only(result.findings):
        return heads.headline("functional-only", "the device is emulated, so nothing was timed", number)
    nearest = _nearest(result)
    if nearest is not None and nearest.comparison is not None:
        n = sum(fix.comparison is not None for fix in result.tried)
        of = " and ".join(dict.fromkeys(nearest.codes))
        which = "the best" if nearest.comparison.ratio < 1 else "the nearest"
        outcome = "the only fix measured" if n == 1 else f"{which} of {n} fixes measured"
        unproven = "" if result.controls else "; controls not run"
        return _gain_headline(result, nearest, nearest.comparison, f"{outcome}, of {of}{unproven}")
    if not result.findings:
        profiled = ("no findings", "ortune tune tests every setting")
        unknown = ("the model was not profiled", "rerun with a longer --budget; so far no findings")
        return heads.headline("nothing-tested", *(unknown if result.profile is None else profiled))
    return heads.headline(
        "nothing-tested", f"{number}, but no fix could be measured", next(iter(_steps(result)), ("", ""))[0]
    )


def _gain_headline(result: DiagnoseResult, fix: TriedFix, comparison: Comparison, which: str) -> str:
    """Return the headline for the measured gain of a fix; ``which`` describes the fix."""
    blocks = amount(comparison.n_blocks, "block")
    both = sides.values(result.figures, fix.figures, comparison)
    said = ", ".join(filter(None, (heads.measured(comparison, blocks), both)))
    doubts = others_words.doubts(comparison)
    return heads.headline(comparison.verdict, said, which, doubts, statistic=comparison.statistic)


def _nearest(result: DiagnoseResult) -> TriedFix | None:
    """Return the measured fix with the lowest time ratio; None if no fix was measured."""
    return min((fix for fix in result.tried if fix.comparison is not None), key=_ratio, default=None)


def _ratio(fix: TriedFix) -> float:
    return fix.comparison.ratio if fix.comparison is not None else 1.0


def _steps(result: DiagnoseResult) -> Iterator[tuple[str, str]]:
    """Yield the next steps if no fix was confirmed, as pairs of a short and a full sentence."""
    late = [code for fix in result.tried if _wants_time(fix, result) for code in fix.codes]
    rerun = shlex.join(with_budget(result.reproduce, result.enough_s)) if result.enough_s else ""
    if rerun and late:
        of = " and ".join(dict.fromkeys(late))
        yield (
            f"--budget {as_option(result.enough_s)} is enough to measure the fix for {of}",
            f"measure the fix for {of}: {rerun}",
        )
    for safety in ("numerics", "behaviour"):
        codes = [f.code for f in result.findings if f.code in result.not_tried and f.safety == safety]
        again = words_of(result.reproduce)
        if codes and again:
            of = " and ".join(dict.fromkeys(codes))
            option = f"--allow {safety}"
            yield (
                f"{option} measures the fix for {of}",
                f"measure the fix for {of}, which is not exact: {shlex.join(again)} {option}",
            )
    for finding in _by_hand(result)[:MOST_BY_HAND]:
        yield f"{finding.code} needs a manual fix", f"{finding.code}: {finding.fix}"
    yield "ortune tune tests every setting", f"test every setting and rewrite: {result.tune}"


def _wants_time(fix: TriedFix, result: DiagnoseResult) -> bool:
    """Return whether a larger budget could show the gain of this fix."""
    return fix.failed.startswith(TOO_SMALL) or (fix.comparison is not None and not result.controls)


def _by_hand(result: DiagnoseResult) -> list[Finding]:
    """Return the findings whose fix has to be made by hand because it is not a plan, the most important first."""
    measured = {code for fix in result.tried if fix.comparison is not None for code in fix.codes}
    others = {*measured, *result.not_tried}
    left = [
        f
        for f in result.findings
        if f.fix and f.plan is None and f.code not in others and f.code[:3] not in ("MSR", "ENV")
    ]
    return sorted(left, key=lambda f: (f.severity == "note", -(f.share_ratio or 0.0)))


def _best(result: DiagnoseResult) -> TriedFix | None:
    """Return the confirmed fix with the largest gain, possibly all fixes together; None if no fix was confirmed."""
    faster = [
        fix
        for fix in (*result.tried, *([result.together] if result.together else []))
        if fix.comparison is not None and fix.comparison.verdict == "faster"
    ]
    # What is known for a busy machine alone is no recommendation while anything else is one.
    plain = [fix for fix in faster if not others_words.only_under_load(fix.comparison)]
    faster = plain or faster
    return min(faster, key=_ratio, default=None)


def document(envelope: Envelope[DiagnoseResult]) -> Document:
    """Return the document of a diagnosis: headline, one row per fix, findings, and the next commands."""
    result = envelope.result
    assert result is not None
    if result.page is not None:
        return page_words.document(envelope)
    best = _best(result)
    tone: Tone = "good" if best and not others_words.doubts(best.comparison) else "unsure"
    told = best or _nearest(result)
    holds = [("", told.comparison)] if told and not others_words.doubts(told.comparison) else []
    blocks: list[Block] = [*stopped(envelope), Line(headline(result), tone), *others_words.lines(holds)]
    tried = [*result.tried, *([result.together] if result.together else [])]
    if tried:
        columns = [
            Column("fix for", "label"),
            Column("change", "text"),
            Column(sides.statistic_name(result.statistic)),
            Column("difference"),
            Column("", "text"),
        ]
        base = sides.value(result.figures, result.statistic) if result.figures else ""
        rows = [[Cell("as it is"), Cell(""), Cell(base), Cell(""), Cell("")]]
        rows += [_row(result, fix, together=fix is result.together) for fix in tried]
        blocks.append(table(columns, rows, dense=True))
    faster = [
        fix
        for fix in result.tried
        if fix.comparison
        and fix.comparison.verdict == "faster"
        and not others_words.only_under_load(fix.comparison)
    ]
    pays = {code for fix in faster for code in fix.codes}
    blocks.append(
        Points(title="findings", items=[_finding_text(f, result, pays) for f in result.findings], marked=True)
    )
    if best is None and result.findings and not finding_words.functional_only(result.findings):
        steps = [whole for _, whole in _steps(result)]
        blocks.append(Points(title="what to do", items=steps, marked=True))
    blocks.append(Pairs(rows=list(_details(result))))
    blocks.append(Code(title="next", lines=list(_next(envelope)), commands=True))
    annotations = [
        Annotation(level="notice", title="ortune diagnose", lines=[headline(result)]),
        *finding_words.to_annotate(result.findings),
    ]
    return Document(title=f"diagnosis of {result.side.label}", blocks=blocks, annotations=annotations)


def _row(result: DiagnoseResult, fix: TriedFix, *, together: bool) -> list[Cell]:
    name = "all together" if together else ", ".join(fix.codes)
    change_ = "" if together else _change(fix)
    if fix.comparison is None or fix.figures is None:
        short = TOO_SMALL if fix.failed.startswith(TOO_SMALL) else fix.failed  # one budget is named for all
        return [Cell(name), Cell(change_), Cell(""), Cell(""), Cell(short)]
    comparison = fix.comparison
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    ratio, low, high = sides.as_shown(comparison)
    difference = f"{change(ratio)} ({span(low, high)})"
    return [
        Cell(name),
        Cell(change_),
        Cell(sides.new_value(result.figures, fix.figures, comparison)),
        Cell(difference),
        _verdict(comparison, tones.get(comparison.verdict, "")),
    ]


def _verdict(comparison: Comparison, tone: Tone) -> Cell:
    if others_words.only_under_load(comparison):
        return Cell(f"{comparison.verdict} under load", tone="unsure")
    return Cell(_VERDICTS.get(comparison.verdict, comparison.verdict), tone=tone)


def _change(fix: TriedFix) -> str:
    return ", ".join([r.name for r in fix.plan.rewrites] + [f"{k}={v}" for k, v in fix.plan.settings.items()])


def _finding_text(finding: Finding, result: DiagnoseResult, pays: set[str]) -> str:
    """Return a finding in words, with its share of the run and the result of its fix.

    ``pays`` contains the codes of findings whose fix has a confirmed gain.
    """
    share = f"{whole_percent(finding.share_ratio)} of the run" if finding.share_ratio else ""
    share = f"; {share}" if share and share not in finding.what else ""
    fix = ""
    if finding.code in pays:
        fix = " -> its fix helps"
    elif finding.verified is not None:
        fix = f" -> its fix was measured: {_VERDICTS.get(finding.verified.verdict, 'inconclusive')}"
    elif finding.code in result.not_tried:
        ground = finding_words.estimate(finding)
        fix = f"{f'; {ground}' if ground else ''} -> its fix is not exact; measure it with --allow {finding.safety}"
    elif finding.fix:
        fix = f" -> {finding.fix}"
    return f"{finding.code} {finding.what}{finding_words.places(finding)}{share}{fix}"


def _details(result: DiagnoseResult) -> Iterator[tuple[str, str]]:
    if result.statistic:
        yield "statistic", result.statistic
    if result.controls:
        troubled = "; ".join(text for text in map(control_problem, result.controls) if text)
        yield "checks", troubled or "passed: A/A check, sensitivity check"
    elif any(fix.comparison is not None for fix in result.tried):
        yield "checks", NO_CONTROLS
    yield from _transfer(result)
    in_turn = memory_words.peak_remark(result.peak_in_turn)
    if in_turn:
        alone = f"{memory(result.figures.peak_bytes)}; " if result.figures else ""
        yield "peak memory", f"{alone}{in_turn}"
    for text in result.notes:
        yield "note", text


def _transfer(result: DiagnoseResult) -> list[tuple[str, str]]:
    """Return rows with transfer times if profiled, or else on whether times include transfers.

    Empty if nothing was timed.
    """
    if finding_words.functional_only(result.findings):
        return []
    rows = transfer_words.rows(result.profile) if result.profile is not None else []
    return rows or transfer_words.included([result.side.plan])


def _next(envelope: Envelope[DiagnoseResult]) -> Iterator[str]:
    result = envelope.result
    best = _best(result)
    told = best or _nearest(result)
    quiet = others_words.wait_options(told.comparison) if told is not None else []
    if quiet:
        enough_s = result.enough_s
        again = with_budget(result.reproduce, enough_s) if enough_s else words_of(result.reproduce)
        yield from [shlex.join([*again, *quiet])] if again else []
    elif best is not None:
        yield best.command
    yield result.tune
    if result.findings:
        yield f"ortune explain {result.findings[0].code}"
    yield from lines(report_line(result.session, envelope.store))


def _named(fix: TriedFix) -> str:
    """Return a fix in words, or the number of its changes if there are many, with the codes of its findings."""
    codes = list(dict.fromkeys(fix.codes))
    what = _change(fix)
    if len(what) > LONGEST_PLAN:
        what = amounts((len(fix.plan.rewrites), "rewrite"), (len(fix.plan.settings), "setting"))
    return f"{what} (fixes {' and '.join(codes) if len(codes) <= NAMED else f'{len(codes)} findings'})"


STORED = StoredKind(
    result=DiagnoseResult,
    document=document,
    headline=headline,
)
