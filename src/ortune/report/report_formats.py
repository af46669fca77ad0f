"""What ``ortune report`` shows: the list, a session told again, several side by side, the brief."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ortune.errors import UsageError
from ortune.records import Envelope, ProfileResult, ReportResult, StoredSession, TuneResult
from ortune.report import brief_formats, escape, history, told
from ortune.report.answer import KINDS
from ortune.report.numbers import shorten

LIST_HEADS = ("session", "measured", "verb", "about", "answer")
NO_TIMELINE = (
    "The timeline was not kept with this session; ortune profile TRACE --report FILE.html draws one."
)


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal."""
    result = _result(envelope)
    if result.brief is not None:
        body = brief_formats.terminal(result.brief, result.sessions[0])
    elif result.history is not None:
        body = _history(result)
    elif result.kind == "told":
        body = _told(result.sessions[0])
    else:
        body = _list(result)
    return Group(*(_text(line, "yellow") for line in result.troubles), body)


def markdown(envelope: Envelope) -> str:
    """The same as Markdown."""
    result = _result(envelope)
    if result.brief is not None:
        text = brief_formats.markdown(result.brief, result.sessions[0])
    elif result.history is not None:
        text = _history_markdown(result)
    elif result.kind == "told":
        text = _told_markdown(result.sessions[0])
    else:
        text = "\n".join(["### ortune report", "", *_md_table(LIST_HEADS, _list_rows(result))]) + "\n"
    return "".join(f"*{escape.markdown(line)}*\n\n" for line in result.troubles) + text


def html(envelope: Envelope) -> str:
    """The whole report of a tuning or a profile, or a brief, as one page.

    Raises:
        UsageError: There is no page of what is told.
    """
    result = _result(envelope)
    session = result.sessions[0] if result.sessions else None
    if result.brief is not None and session is not None:
        from ortune.report.html.brief import render as render_brief

        return render_brief(result.brief, session)
    document = session.document if session is not None else None
    if result.kind == "told" and isinstance(document, Envelope) and isinstance(document.result, TuneResult):
        from markupsafe import Markup

        from ortune.report.html.page import render

        line = escape.visible(told.provenance(result.sessions[0]))
        # The page of a stored session says first that it is one; nothing but the page itself begins its main part.
        mark = Markup('<main>\n<p class="flag" style="margin:1rem 0 0">{}</p>').format(line)
        return render(document).replace("<main>", mark, 1)
    if (
        result.kind == "told"
        and isinstance(document, Envelope)
        and isinstance(document.result, ProfileResult)
    ):
        from ortune.report.html.profile_page import render as render_profile

        line, timeline = told.provenance(result.sessions[0]), result.sessions[0].timeline
        return render_profile(document, timeline, stored=escape.visible(line), no_timeline=NO_TIMELINE)
    if session is not None and session.bundle is not None:
        raise UsageError(
            "the bundle holds its report already: report.html in its folder", where=session.label
        )
    raise UsageError(
        "only a tuning and a profile have an HTML report",
        where="--format html",
        do="--format markdown, or --brief --format html for a comparison on one page",
    )


def _list(result: ReportResult) -> RenderableType:
    parts: list[RenderableType] = []
    for session in result.sessions:
        # The date is UTC everywhere, so the list need not say it on every line.
        head = f"{session.id}  {told.when(session).removesuffix(' UTC')}  {session.verb:<8} {session.label}"
        parts.append(_text(head, "bold"))
        parts.append(Padding(_text(shorten_end(told.summary(session))), (0, 0, 0, 4)))
    if result.n_stored > len(result.sessions):
        more = f"the newest {len(result.sessions)} of {result.n_stored}; --last N shows more"
        parts += [Text(), _text(more, "dim")]
    parts += [Text(), _text("times in UTC; nothing here is measured now", "dim")]
    parts.append(
        _text("ortune report ID tells one again, several IDs side by side, --brief on one page", "dim")
    )
    return Group(*parts)


def _list_rows(result: ReportResult) -> list[tuple[str, ...]]:
    return [
        (s.id, told.when(s).removesuffix(" UTC"), s.verb, shorten(s.label, 28), shorten_end(told.summary(s)))
        for s in result.sessions
    ]


def shorten_end(text: str, length: int = 150) -> str:
    """The text, cut at its end where it is longer than that: an answer begins with what matters."""
    return text if len(text) <= length else text[: length - 3].rstrip() + "..."


def _told(session: StoredSession) -> RenderableType:
    parts: list[RenderableType] = [_text(told.provenance(session), "dim"), Text()]
    formats = _formats(session)
    if formats is not None:
        return Group(*parts, formats.terminal(session.document))
    parts += [_text(line, "bold") for line in _plainly(session)]
    if session.so_far:
        rows = [told.so_far_row(s) for s in session.so_far]
        parts += [_text(told.SO_FAR_NOTE), Text(), _table(told.SO_FAR_HEADS, rows, left=(0,), folds=(0,))]
    return Group(*parts)


def _told_markdown(session: StoredSession) -> str:
    lines = [f"*{escape.markdown(told.provenance(session))}*", ""]
    formats = _formats(session)
    if formats is not None:
        return "\n".join(lines) + "\n" + str(formats.markdown(session.document))
    lines += [f"### ortune {escape.markdown(session.verb)}: {escape.markdown(session.label)}", ""]
    lines += [f"{escape.markdown(line)}\n" for line in _plainly(session)]
    if session.so_far:
        rows = [told.so_far_row(s) for s in session.so_far]
        lines += [told.SO_FAR_NOTE, "", *_md_table(told.SO_FAR_HEADS, rows)]
    return "\n".join(lines) + "\n"


def _formats(session: StoredSession) -> ModuleType | None:
    """The module that tells this verb's documents, where the session has one that it can tell."""
    kind = KINDS.get(session.verb)
    document = session.document
    if kind is None or not isinstance(document, Envelope) or not isinstance(document.result, kind.result):
        return None
    return importlib.import_module(f"ortune.report.{kind.formats}")


def _plainly(session: StoredSession) -> list[str]:
    """The sentences about a session that has no document of a kind that is told here."""
    about = f"{session.verb} {session.label}".strip()
    lines = [f"{about}: {told.summary(session)}"]
    if session.bundle is not None and session.trouble not in lines[0]:
        lines.append(session.trouble)
    if isinstance(session.document, Envelope) and not session.headline:
        lines.append(f"documents of ortune {session.verb} are told as JSON only: --json")
    return lines


def _history(result: ReportResult) -> RenderableType:
    found = result.history
    assert found is not None
    parts: list[RenderableType] = [_text(w, "bold yellow") for w in found.warnings]
    parts += [_text(history.NO_CLAIM, "" if found.warnings else "bold"), Text()]
    parts.append(_table(history.HEADS, history.rows(result.sessions), left=(0, 1, 2, 5), folds=(5,)))
    sides = history.side_rows(result.sessions)
    if sides:
        parts += [Text(), _table(history.SIDE_HEADS, sides, left=(0, 1), folds=(0,))]
    shares = history.profile_rows(result.sessions)
    if shares:
        left, heads = (0,), history.profile_heads(result.sessions)
        parts += [Text(), _table(heads, shares, left=left, folds=())]
    parts += [Text(), _text("what differs" if found.contrasts else "nothing else differs", "bold")]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for contrast in found.contrasts:
        for index, (session, value) in enumerate(zip(result.sessions, contrast.values, strict=True)):
            name = contrast.name if index == 0 else ""
            grid.add_row(
                _text(name), _text(_name(session)), _text(value, "yellow" if contrast.breaks else "")
            )
    parts.append(grid)
    if found.next_step:
        parts += [Text(), _text(f"to prove a difference: {found.next_step}")]
    return Group(*parts)


def _history_markdown(result: ReportResult) -> str:
    found = result.history
    assert found is not None
    lines = ["### ortune report", ""]
    lines += [f"**{escape.markdown(w)}**\n" for w in found.warnings]
    lines += [history.NO_CLAIM, "", *_md_table(history.HEADS, history.rows(result.sessions)), ""]
    sides = history.side_rows(result.sessions)
    if sides:
        lines += [*_md_table(history.SIDE_HEADS, sides), ""]
    shares = history.profile_rows(result.sessions)
    if shares:
        lines += [*_md_table(history.profile_heads(result.sessions), shares), ""]
    if found.contrasts:
        heads = ("differs", *(_name(s) for s in result.sessions))
        lines += [*_md_table(heads, [(c.name, *c.values) for c in found.contrasts]), ""]
    if found.next_step:
        lines += ["To prove a difference:", "", f"    {found.next_step}"]
    return "\n".join(lines).rstrip("\n") + "\n"


def _name(session: StoredSession) -> str:
    return session.id or session.label


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int], folds: Sequence[int]
) -> Table:
    """Numbers stay whole; only the columns in ``folds`` are folded where the terminal is narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, name in enumerate(heads):
        justify: Literal["left", "right"] = "left" if index in left else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=index not in folds)
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    return table


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_md_row(heads), "|" + "---|" * len(heads), *(_md_row(row) for row in rows)]


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape.markdown(cell) for cell in cells) + " |"


def _text(text: str, style: str = "") -> Text:
    # A Text never reads markup; what is not printable is written out.
    return Text(escape.visible(text), style=style, overflow="fold")


def _result(envelope: Envelope) -> ReportResult:
    assert isinstance(envelope.result, ReportResult)
    return envelope.result
