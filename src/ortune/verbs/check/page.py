"""Page of a check: the number of findings, and a table for each model."""

from __future__ import annotations

from ortune.printable import amount
from ortune.records import Envelope
from ortune.show.document import Block, Cell, Column, Document, Head, Section, Table, table
from ortune.show.numbers import whole_percent
from ortune.verbs.check import words as check_words
from ortune.verbs.check.result import CheckedModel, CheckResult


def document(envelope: Envelope[CheckResult]) -> Document:
    """Return the document for a page: the number of findings, then each finding with its share of the work."""
    result = envelope.result
    answer, *more = check_words.end(result)
    blocks: list[Block] = [answer]
    for model in result.models:
        # The title is a file's name, so it is not capitalised.
        blocks.append(
            Section(title=model.path, blocks=[_findings(model), *check_words.after_findings(model)])
        )
    return Document(title="ortune check", blocks=[*blocks, *more], head=_head(result))


def _head(result: CheckResult) -> Head:
    """Return the head of the page, with the number of findings."""
    n = sum(len(model.findings) for model in result.models)
    failed = sum(model.error is not None and not model.n_nodes for model in result.models)
    unread = f", {amount(failed, 'file')} not read" if failed else ""
    if not n:
        return Head(unit=f"No findings{unread}", tone="unsure" if failed else "good")
    models = amount(len(result.models) - failed, "model")
    unit = f"{'finding' if n == 1 else 'findings'} in {models}{unread}"
    return Head(large=str(n), unit=unit, tone="unsure")


def _findings(model: CheckedModel) -> Table:
    """Return a table of the findings, with each finding's share of the estimated work as a bar."""
    shares = [finding.share_ratio or 0.0 for finding in model.findings]
    rows = [
        (
            Cell(finding.code, beneath=finding.severity, tone=check_words.TONES[finding.severity]),
            check_words.finding_text(finding).removeprefix(f"{finding.code} "),
            "" if finding.share_ratio is None else whole_percent(finding.share_ratio),
        )
        for finding in model.findings
    ]
    columns = [Column("rule", "label"), Column("finding", "text"), Column("share of the work")]
    if not any(shares):
        return table(columns[:2], [row[:2] for row in rows])
    return table(columns, rows, bars=shares)
