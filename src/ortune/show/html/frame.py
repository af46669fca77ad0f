"""The frame of every page: head, masthead, style, script, and nothing in it unescaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ortune.show.escape import shown


def page(
    template: str,
    *,
    product: str,
    subject: str,
    title: str,
    basis: str,
    ortune: str,
    styles: Sequence[str],
    session: str = "",
    origin: str = "",
    scripts: Sequence[str] = ("page.js",),
    **content: object,
) -> str:
    """Return a page as one HTML document; it fetches nothing.

    Args:
        template: What fills the frame.
        product: What kind of page it is.
        subject: What it is about.
        title: The answer in very few words, for the window's title.
        basis: What its figures rest on: the last lines.
        ortune: The version that measured.
        styles: Style sheets in addition to that of the frame.
        session: The id of the stored session, "" if it is not stored.
        origin: Of the subject: what was measured, and where.
        scripts: Files; only these may run: a browser refuses any other by its digest.
        content: What the template shows.
    """
    code = "".join(map(_file, scripts))
    return (
        environment()
        .get_template(template)
        .render(
            product=product,
            subject=subject,
            title=title,
            basis=basis,
            ortune=ortune,
            session=session,
            origin=origin,
            style=Markup("".join(map(_file, ("frame.css", *styles)))),
            script=Markup(code),
            script_digest=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
            **content,
        )
    )


@cache
def environment() -> Environment:
    """Return templates that escape everything, and write out what a reader could not see."""
    jinja = Environment(
        loader=PackageLoader("ortune.show.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_written_out,
    )
    jinja.filters["prose"] = _prose
    return jinja


_WHOLE = re.compile(r"-&gt;|(?<![\w-])--[a-z][\w-]*|(?<![\w-])\d[\d.]*-\d[\d.]*x?(?![\w-])")
"""What ends at a hyphen for a browser, and for no reader: arrows, options, and ranges of numbers."""


def _prose(text: str) -> Markup:
    """Return a sentence or a cell in which no line end parts an arrow, an option or an interval."""
    escaped = str(escape(shown(text)))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', escaped))


def _written_out(value: object) -> object:
    # Names may hold control and direction characters, which escaping leaves as they are, and megabytes.
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown(value)
    return value


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
