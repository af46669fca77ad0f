"""Why a model is slow, in words: what a fix brought first, what could not be measured after it."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Comparison, DiagnoseResult, Envelope, Finding, TriedFix
from ortune.report import finding_words
from ortune.report.checks import control_words
from ortune.report.document import (
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
from ortune.report.numbers import change, duration, factor, span

_VERDICTS = {
    "faster": "verified",
    "slower": "slower",
    "equivalent": "does not help",
    "inconclusive": "not shown to help",
}
NAMED = 2


def headline(result: DiagnoseResult) -> str:
    """The largest proven gain, or that there is none."""
    best = _best(result)
    if best is not None:
        found = best.comparison
        assert found is not None and result.figures is not None and best.figures is not None
        times = f"{duration(result.figures.latency_ns)} -> {duration(best.figures.latency_ns)}"
        return (
            f"{_named(best)} fixed: {factor(1 / found.ratio)}x faster ({_interval(found)}), {times}; verified"
        )
    n, measured = len(result.findings), sum(each.comparison is not None for each in result.tried)
    stands_out = f"{n} finding{'s' * (n != 1)}" if n else "nothing stands out"
    if measured:
        return (
            f"{stands_out}; none of the {measured} fixes that were measured pays"
            if measured > 1
            else (f"{stands_out}; the one fix that was measured does not pay")
        )
    return f"{stands_out}; none has a fix that could be measured" if n else stands_out


def _best(result: DiagnoseResult) -> TriedFix | None:
    """The proven fix with the largest gain: all together only where that is more than each alone."""
    faster = [
        each
        for each in (*result.tried, *([result.together] if result.together else []))
        if each.comparison is not None and each.comparison.verdict == "faster"
    ]
    return min(faster, key=lambda each: each.comparison.ratio if each.comparison else 1.0, default=None)


def document(envelope: Envelope[DiagnoseResult]) -> Document:
    """The answer, a row a fix, what stands out besides, and the commands that go on."""
    result = envelope.result
    assert result is not None
    tone: Tone = "good" if _best(result) else "unsure"
    blocks: list[Block] = [*stopped(envelope), Line(headline(result), tone)]
    tried = [*result.tried, *([result.together] if result.together else [])]
    if tried:
        columns = [
            Column("fix of", "label"),
            Column("change", "text"),
            Column("p50"),
            Column("difference"),
            Column(""),
        ]
        base = result.figures
        rows = [
            [Cell("as it is"), Cell(""), Cell(duration(base.latency_ns) if base else ""), Cell(""), Cell("")]
        ]
        rows += [_row(each, together=each is result.together) for each in tried]
        blocks.append(table(columns, rows, dense=True))
    faster = [each for each in result.tried if each.comparison and each.comparison.verdict == "faster"]
    pays = {code for each in faster for code in each.codes}
    blocks.append(
        Points(title="what stands out", items=[_told(f, result, pays) for f in result.findings], marked=True)
    )
    blocks.append(Pairs(rows=list(_details(result))))
    blocks.append(Code(title="next", lines=list(_next(result)), commands=True))
    annotations = [
        Annotation(level="notice", title="ortune diagnose", lines=[headline(result)]),
        *finding_words.to_annotate(result.findings),
    ]
    return Document(title=f"diagnosis of {result.side.label}", blocks=blocks, annotations=annotations)


def _row(each: TriedFix, *, together: bool) -> list[Cell]:
    name = "all together" if together else ", ".join(each.codes)
    change_ = "" if together else _change(each)
    if each.comparison is None or each.figures is None:
        return [Cell(name), Cell(change_), Cell("-"), Cell(""), Cell(each.failed)]
    found = each.comparison
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    difference = f"{change(found.ratio)} ({span(found.ratio_low, found.ratio_high)})"
    return [
        Cell(name),
        Cell(change_),
        Cell(duration(each.figures.latency_ns)),
        Cell(difference),
        Cell(_VERDICTS.get(found.verdict, found.verdict), tone=tones.get(found.verdict, "")),
    ]


def _change(each: TriedFix) -> str:
    return ", ".join(
        [r.name for r in each.plan.rewrites] + [f"{k}={v}" for k, v in each.plan.settings.items()]
    )


def _told(finding: Finding, result: DiagnoseResult, pays: set[str]) -> str:
    """A finding with its share, and whether its fix was proven."""
    share = f"{100 * finding.share_ratio:.0f} % of the run" if finding.share_ratio else ""
    share = f"; {share}" if share and share not in finding.what else ""
    fix = ""
    if finding.code in pays:
        fix = " -> its fix pays"
    elif finding.verified is not None:
        fix = " -> its fix was measured and is not shown to help"
    elif finding.code in result.not_tried:
        ground = finding_words.estimate(finding)
        fix = (
            f"{f'; {ground}' if ground else ''} -> its fix is not exact: --allow {finding.safety} measures it"
        )
    elif finding.fix:
        fix = f" -> {finding.fix}"
    return f"{finding.code} {finding.what}{finding_words.places(finding)}{share}{fix}"


def _details(result: DiagnoseResult) -> Iterator[tuple[str, str]]:
    if result.estimand:
        yield "statistic", result.estimand
    troubled = [c for c in result.controls if not c.ok]
    if result.controls:
        yield (
            "checks",
            "; ".join(control_words(troubled)) if troubled else "passed: A/A check, positive control",
        )
    for text in result.notes:
        yield "note", text


def _next(result: DiagnoseResult) -> Iterator[str]:
    best = _best(result)
    if best is not None:
        yield best.command
    yield result.tune
    if result.findings:
        yield f"ortune explain {result.findings[0].code}"


def _named(each: TriedFix) -> str:
    return (
        " and ".join(dict.fromkeys(each.codes))
        if len(each.codes) <= NAMED + 1
        else f"{len(each.codes)} findings"
    )


def _interval(found: Comparison) -> str:
    if found.ratio_high is None:
        return "no upper bound"
    return f"{1 / found.ratio_high:.2f} to {1 / found.ratio_low:.2f}"
