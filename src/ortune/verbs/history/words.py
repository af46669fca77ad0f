"""The history of a model over releases of ONNX Runtime, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise

from ortune.printable import amount, listed
from ortune.records import Comparison, Envelope
from ortune.show import exact_words, finding_words, others_words, sides
from ortune.show import headline as heads
from ortune.show.answer_commands import lines, report_line, words_of
from ortune.show.checks import checks, control_words
from ortune.show.document import Block, Code, Column, Document, Line, Pairs, Table, Tone, stopped, table
from ortune.show.numbers import change, duration, enough, memory, span, waiting
from ortune.show.stored_kind import StoredKind, both_builds
from ortune.verbs.history.result import HistoryResult, ReleaseRow
from ortune.verbs.soak.words import size

_NOTHING = "-"
NO_BLOCK = "no usable block"
"""Reason for the missing result of a release that ran but has no usable block."""
FEW_CALLS = "too few calls"
STOPPED = "stopped before the first call; there is no result"


def soaks(n: int, seconds: float) -> str:
    """Return a sentence on how many releases are soaked, and for how long."""
    return f"{n} releases, one process each with the same calls, for {waiting(seconds)} in all"


def no_time(needed_s: float) -> str:
    """Return a reason that says that a release was not compared for lack of time, with a sufficient budget."""
    return f"not compared: budget too small ({enough(needed_s)} is enough)"


def headline(result: HistoryResult) -> str:
    """Return one sentence that compares the newest with the oldest release, and names the releases with a change."""
    if any(row.growth is not None for row in result.rows):
        return _growth(result)
    rows = {row.release: row.since_previous for row in result.rows}
    changes = [
        f"{name} is {_words(release)}" for name in result.changed if (release := rows[name]) is not None
    ]
    of = sides.statistic_name(result.statistic)
    unsure = any(release is not None and release.verdict == "inconclusive" for release in rows.values())
    confirmed = "is confirmed to have changed" if unsure else "changed"
    same = f"no release {confirmed} the {of}"
    if all(row.failed for row in result.rows):
        why = f"no two releases were compared ({result.rows[0].failed})"
        time = heads.headline("nothing-tested", why)
    else:
        time = _time(result, changes, same)
    said = outputs(result)
    return f"{said}; {time}" if said else time


def _growth(result: HistoryResult) -> str:
    """Return one sentence on the releases in which the growth of memory changed."""
    known = [row for row in result.rows if row.growth is not None]
    changes = []
    for new, old in pairwise(known):
        if new.release in result.changed and new.growth is not None and old.growth is not None:
            more = "more" if new.growth.per_1000_calls > old.growth.per_1000_calls else "less"
            changes.append(f"memory grows {more} in {new.release} than in {old.release}")
    growing = [row.release for row in known if row.memory_verdict == "growing"]
    if changes:
        return "; ".join(changes)
    if len(growing) == len(known):
        return "memory grows in all releases, and none is confirmed to have changed the growth"
    if growing:
        return f"memory grows in {listed(growing)}; no release is confirmed to have changed the growth"
    undecided = [row.release for row in known if row.memory_verdict == "undecided"]
    if undecided:
        return f"inconclusive: memory of {listed(undecided)} is undecided; use a larger --budget"
    return "memory grows in no release"


def _growth_rows(result: HistoryResult) -> Table:
    """Return a table with a row per release: its growth with the interval, and the verdict."""
    columns = [Column("onnxruntime", "label"), Column("per 1,000 calls"), Column("95 % interval", "text")]
    rows = []
    for row in result.rows:
        figure = row.growth
        if figure is None:
            rows.append((row.release, _NOTHING, row.failed, _NOTHING))
            continue
        ends = [None if end is None else size(end) for end in (figure.low, figure.high)]
        interval = " to ".join("unbounded" if end is None else end for end in ends)
        rows.append((row.release, size(figure.per_1000_calls), interval, row.memory_verdict))
    return table([*columns, Column("memory", "text")], rows, dense=True)


def outputs(result: HistoryResult) -> str:
    """Return a phrase on the releases with wrong or different outputs; "" if all releases agree."""
    ran = [row for row in result.rows if row.exact is not None or row.outputs is not None]
    wrong = [row.release for row in ran if row.exact is not None and row.exact.right is False]
    right = [row.release for row in ran if row.exact is not None and row.exact.right]
    if wrong:
        others = f" and right in {listed(right)}" if right else ""
        return f"outputs are wrong in {listed(wrong)}{others}"
    differing = [row.release for row in ran if row.outputs is not None and not row.outputs.ok]
    if not differing:
        return ""
    if all(row.outputs.empty for row in ran if row.outputs is not None):
        return "outputs cannot be compared: they have no elements"
    unknown = "" if right else ", and which is right was not checked"
    return f"outputs of {listed(differing)} differ from {ran[0].release}{unknown}"


def _time(result: HistoryResult, changes: Sequence[str], same: str) -> str:
    whole, ran = (
        result.whole,
        [row.release for row in result.rows if row.figures is not None and not row.failed],
    )
    if whole is None:
        return heads.headline("inconclusive", ", ".join(changes) or same)
    said = f"{heads.measured(whole, amount(whole.n_blocks, 'block'))}, {ran[0]} against {ran[-1]}"
    return heads.headline(whole.verdict, said, *(changes or [same]), statistic=whole.statistic)


def document(envelope: Envelope[HistoryResult]) -> Document:
    """Return the document of a history: the headline, a row per release, and the details."""
    result = envelope.result
    assert result is not None
    if any(row.growth is not None for row in result.rows):
        growing = any(row.memory_verdict == "growing" for row in result.rows)
        return Document(
            title=f"history of {result.side.label}",
            blocks=[
                *stopped(envelope),
                Line(headline(result), "bad" if growing else "strong"),
                _growth_rows(result),
                Code(title="next", lines=lines(report_line(result.session, envelope.store)), commands=True),
            ],
            support=[Pairs(rows=_details(result))],
        )
    tone: Tone = "bad" if outputs(result) else "strong" if result.changed else "unsure"
    columns = [Column("onnxruntime", "label"), Column(sides.statistic_name(result.statistic))]
    columns += [Column("against the previous release", "text")]
    columns += [Column("load"), Column("memory"), Column("outputs", "text"), Column("correct")]
    blocks: list[Block] = [
        *stopped(envelope),
        Line(headline(result), tone),
        *others_words.lines([("", result.whole)]),
        table(columns, _rows(result), dense=True),
        *checks(result.controls, result.whole, result.findings),
        Code(title="next", lines=_next(envelope), commands=True),
    ]
    support = [Pairs(rows=_details(result))]
    return Document(title=f"history of {result.side.label}", blocks=blocks, support=support)


def _next(envelope: Envelope[HistoryResult]) -> list[str]:
    """Return the commands that locate the largest change, repeat the history when quiet, and show the details."""
    result = envelope.result
    quiet = others_words.wait_options(result.whole)
    again = [shlex.join([*words_of(result.reproduce), *quiet])] if quiet else []
    return [
        *([result.why] if result.why else []),
        *again,
        *lines(report_line(result.session, envelope.store)),
    ]


def _rows(result: HistoryResult) -> list[tuple[str, ...]]:
    """Return one row per release, newest first.

    Each value is the previous release's value multiplied by the paired change.
    """
    rows: list[tuple[str, ...]] = []
    before: float | None = None
    headed = all(row.failed for row in result.rows)
    for row in reversed(result.rows):
        figures, comparison = row.figures, row.since_previous
        if figures is not None:
            number = sides.number(figures, result.statistic)
            before = before * comparison.ratio if comparison is not None and before else number
        rows.insert(0, _row(row, result.statistic, before, headed))
    return rows


def _row(row: ReleaseRow, statistic: str, number: float | None, headed: bool) -> tuple[str, ...]:
    """Return the row of a release; ``headed`` if the headline already contains the sufficient budget."""
    why = row.failed.partition(" (--budget")[0] if headed else row.failed
    if row.figures is None:
        return (row.release, _NOTHING, why, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
    comparison, figures, outputs = row.since_previous, row.figures, row.outputs
    differ = "" if outputs is None else "equal" if outputs.ok else outputs.what
    peak = memory(figures.peak_bytes) if figures.peak_bytes else _NOTHING
    alone = f"single observation: {why}" if row.failed else _NOTHING
    since = alone if comparison is None else f"{_interval(comparison)}, {heads.WORDS[comparison.verdict]}"
    value, correct = sides.text(number, statistic), exact_words.cell(row.exact)
    return (row.release, value, since, duration(figures.load_ns), peak, differ, correct)


def _details(result: HistoryResult) -> list[tuple[str, str]]:
    rows = [("statistic", result.statistic)]
    rows += [("noise", text) for text in control_words(result.controls)]
    rows += finding_words.rows(result.findings)
    rows += [("note", text) for text in result.notes]
    rows.append(("again", result.reproduce))
    return [(name, text) for name, text in rows if text]


def _words(comparison: Comparison) -> str:
    figure = sides.statistic_name(comparison.statistic)
    return f"{comparison.verdict} than the previous release in {figure} by {_interval(comparison)}"


def _interval(comparison: Comparison) -> str:
    ratio, low, high = sides.as_shown(comparison)
    return f"{change(ratio)} ({span(low, high)})"


STORED = StoredKind(
    result=HistoryResult,
    document=document,
    headline=headline,
    build=lambda result: f"onnxruntime {both_builds(result.rows[0].release, result.rows[-1].release)}",
)
