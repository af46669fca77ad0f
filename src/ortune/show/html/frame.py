"""The frame of all pages: head, masthead, style and script; all values are escaped."""

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
    """Return a page as one HTML document that loads no other file.

    Args:
        template: File name of the template for the content.
        product: Kind of page, such as "comparison".
        subject: The page's subject, such as the model's name.
        title: The result in very few words, for the window's title.
        basis: How the page's numbers were obtained, shown at its end.
        ortune: Version of ortune that measured.
        styles: Style sheets in addition to the frame's.
        session: Id of the stored session; "" if it is not stored.
        origin: The measured model or application, and the machine.
        scripts: Script files; the page's security policy allows only these scripts, by their digests.
        content: Variables of the template.
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
    """Return the template environment, which escapes all values and makes invisible characters visible."""
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
"""Texts in which browsers should not break a line at a hyphen: arrows, options, and ranges of numbers."""


def _prose(text: str) -> Markup:
    """Return a text as HTML in which no line break splits an arrow, an option or an interval."""
    escaped = str(escape(shown(text)))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', escaped))


def _written_out(value: object) -> object:
    # Names may contain control and direction characters, which escaping does not change, and megabytes of
    # text.
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown(value)
    return value


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
