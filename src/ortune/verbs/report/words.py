"""Text of ``ortune report``: the list, one stored session, several sessions, the brief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ortune.errors import UsageError
from ortune.records import Envelope, ProfileResult, holds
from ortune.show import finding_words
from ortune.show.answer_commands import lines, report_line
from ortune.show.document import Block, Cell, Code, Column, Document, Line, Pairs, Points, table
from ortune.show.numbers import shorten_end
from ortune.show.stored_kind import stored_kind
from ortune.verbs.report import brief_words, several_words, stored_words
from ortune.verbs.report import several as history
from ortune.verbs.report.result import IssueReport, ReportResult, StoredSession
from ortune.verbs.skeleton import words as skeleton_words


def document(envelope: Envelope[ReportResult]) -> Document:
    """Return the document for the requested report, preceded by notes about sessions that could not be read."""
    result = envelope.result
    if result.brief is not None:
        page = brief_words.document(result.brief, result.sessions[0])
    elif result.text:
        said = f"{result.text}: what was found in the application, without paths and arguments"
        page = Document(
            title="ortune report", blocks=[Line(said, "strong"), Line("read it before you send it", "faint")]
        )
    elif result.issue is not None:
        page = _issue(result.issue)
    elif result.history is not None:
        page = Document(title="ortune report", blocks=_history(result))
    elif result.kind == "told":
        page = _document_of(result.sessions[0])
    else:
        page = Document(title="ortune report", blocks=_list(result))
    troubles = [Line(line, "look") for line in result.troubles]
    return replace(page, before=[*troubles, *page.before])


def html(envelope: Envelope[ReportResult]) -> str:
    """Return the HTML page of a stored session or a brief, or the terminal document as a page for other reports.

    Raises:
        UsageError: The page is already part of a bundle.
    """
    result = envelope.result
    session = result.sessions[0] if result.sessions else None
    if result.brief is not None and session is not None:
        from ortune.verbs.report.brief_page import render as render_brief

        return render_brief(result.brief, session)
    if session is not None and session.bundle is not None and session.document is None:
        raise UsageError("the bundle already contains its report: report.html", where=session.label)
    from ortune.show.html import document_page, pages

    if result.kind == "told" and session is not None and session.document is not None:
        stored = session.document
        kind = stored_kind(session.verb)
        if kind is not None and holds(stored, kind.result):
            if holds(stored, ProfileResult):
                profile = msgspec.structs.replace(stored.result, timeline=session.timeline)
                stored = msgspec.structs.replace(stored, result=profile)
            return pages.render(stored, stored=stored_words.provenance(session))
    return document_page.render(document(envelope), "report")


def _issue(issue: IssueReport) -> Document:
    blocks: list[Block] = [
        Line(f"{issue.path}: {issue.skeleton.path} beside it, {issue.skeleton.headline}", "strong"),
        Points(title="differences from the original", items=skeleton_words.differences(issue.skeleton)),
        Line(f"describe the problem in {issue.path}, and read both files before you send them", "faint"),
    ]
    return Document(title="ortune report", blocks=blocks)


def _list(result: ReportResult) -> list[Block]:
    # All dates are UTC, so the lines omit it.
    rows = [
        (
            f"{s.id}  {stored_words.when(s).removesuffix(' UTC')}  {s.verb:<8} {s.label}",
            shorten_end(stored_words.summary(s)),
        )
        for s in result.sessions
    ]
    n = len(result.sessions)
    more = f"the newest {n} of {result.n_stored}; --last N shows more" if result.n_stored > n else ""
    return [
        Pairs(rows=rows, stacked=True),
        Line(more, "faint"),
        Line("times in UTC; stored results, nothing was run", "faint"),
        Line("ortune report ID shows one session, several IDs side by side, --brief on one page", "faint"),
    ]


def _document_of(session: StoredSession) -> Document:
    """Return the document of the session's verb, or partial results, preceded by the time of the measurement."""
    before = [Line(stored_words.provenance(session), "faint")]
    kind = stored_kind(session.verb)
    stored = session.document
    if kind is not None and holds(stored, kind.result):
        page = finding_words.with_common_parts(kind.document(stored), stored)
        return replace(
            page,
            before=[*before, *page.before],
            blocks=_without_itself(page.blocks, session.id, stored.store),
        )
    columns = [
        Column(stored_words.SO_FAR_HEADS[0], "text"),
        *(Column(head) for head in stored_words.SO_FAR_HEADS[1:]),
    ]
    return Document(
        title=f"ortune {session.verb}: {session.label}",
        before=before,
        blocks=[
            *(Line(line, "strong") for line in _plainly(session)),
            Line(stored_words.SO_FAR_NOTE if session.so_far else ""),
            table(columns, [stored_words.so_far_row(s) for s in session.so_far], dense=True),
        ],
    )


def _without_itself(blocks: Sequence[Block], session: str, store: str) -> list[Block]:
    """Return the blocks with the command marked that shows this session with its details."""
    own = "\n".join(lines(report_line(session, store)))
    return [
        replace(block, shows_details=own) if isinstance(block, Code) and block.commands else block
        for block in blocks
    ]


def _plainly(session: StoredSession) -> list[str]:
    """Return sentences about a session whose document cannot be displayed."""
    about = f"{session.verb} {session.label}".strip()
    lines = [f"{about}: {stored_words.summary(session)}"]
    if session.bundle is not None and session.trouble not in lines[0]:
        lines.append(session.trouble)
    if session.document and not session.headline:
        lines.append(f"documents of ortune {session.verb} are available only as JSON (--json)")
    return lines


def _history(result: ReportResult) -> list[Block]:
    side_by_side = result.history
    assert side_by_side is not None
    sessions = result.sessions
    head, *names = history.profile_heads(sessions)
    contrasts = [
        (c.name if i == 0 else "", s.id or s.label, Cell(value, tone="look" if c.breaks else ""))
        for c in side_by_side.contrasts
        for i, (s, value) in enumerate(zip(sessions, c.values, strict=True))
    ]
    return [
        *(Line(warning, "unsure") for warning in side_by_side.warnings),
        Line(several_words.NO_CLAIM, "" if side_by_side.warnings else "strong"),
        table(history.COLUMNS, history.rows(sessions), dense=True),
        table(history.SIDE_COLUMNS, history.side_rows(sessions), dense=True),
        table(
            [Column(head, "label"), *(Column(name) for name in names)],
            history.profile_rows(sessions),
            dense=True,
        ),
        table(
            [Column("", "label"), Column("", "label"), Column("", "text")],
            contrasts,
            title="what differs",
            dense=True,
        ),
        Line("" if contrasts else "nothing else differs", "strong"),
        Code(
            title="to confirm a difference",
            lines=[side_by_side.next_step] if side_by_side.next_step else [],
            commands=True,
        ),
    ]
