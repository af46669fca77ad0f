"""``ortune report``."""

from __future__ import annotations

from typing import Annotated

import typer

from ortune.cli import options as o
from ortune.cli.session import chosen_format, reporting, write_answer, write_text


def report(
    sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="[SESSION|MODEL|BUNDLE]...",
            help="Id of a session or its beginning, newest, a model (its newest session), or a folder NAME.ortune. "
            "None lists what is stored.",
            show_default=False,
        ),
    ] = [],
    brief: Annotated[
        bool,
        typer.Option(
            "--brief",
            help="One page for people who decide; without SESSION of the newest.",
            rich_help_panel=o.OUT,
        ),
    ] = False,
    load: Annotated[
        str | None,
        typer.Option(
            "--load",
            metavar="200/s",
            help="With --brief: requests that arrive, /s, /min, /h or /d; the CPUs are reckoned for them.",
            rich_help_panel=o.OUT,
        ),
    ] = None,
    last: Annotated[
        int,
        typer.Option(
            "--last", metavar="N", min=1, help="How many sessions are listed.", rich_help_panel=o.OUT
        ),
    ] = 20,
    store: o.StorePath = None,
    output: o.Output = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="text, json, markdown or html.", rich_help_panel=o.OUT
        ),
    ] = "text",
    as_json: o.Json = False,
) -> None:
    """What was measured before, told again with its date and machine; nothing is measured.

    Without a name it lists the stored sessions. One name tells that session again, several stand side by side.
    """
    with reporting("report", as_json or format == "json"):
        form = chosen_format(format, as_json, ("text", "json", "markdown", "html"))
        from ortune import api
        from ortune.report.stored_words import document, html

        page = form == "html"
        envelope = api.report(*sessions, brief=brief, load=load, last=last, store=store, timeline=page)
        if page:
            write_text(html(envelope), output)
        else:
            write_answer(envelope, document, form, output)
