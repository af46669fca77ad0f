"""The frame of every page: head, masthead, style, its sections in their order, and nothing in it unescaped.

A section is a module in the page's folder with a docstring, ``ORDER``, ``TITLE``, ``NOTE`` (how to read it, one or two
sentences, may be "") and ``content``, which returns what the template of its name in ``templates/`` shows, or None to
be left out.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import ModuleType

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ortune.printable import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One rendered section."""

    name: str
    title: str
    note: str
    body: Markup


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
    alerts: Sequence[str] = (),
    **shown: object,
) -> str:
    """A page as one HTML document; it fetches nothing.

    Args:
        template: What fills the frame.
        product: What kind of page it is.
        subject: What it is about.
        title: The answer in very few words, for the window's title.
        basis: What its figures rest on: the last lines.
        ortune: The version that measured.
        styles: Files with its style, beside that of the frame.
        session: The id of what it tells, where it is stored.
        origin: Of the subject: what was measured, and where.
        scripts: Files; only these may run: a browser refuses any other by its digest.
        alerts: What is said before all else.
        shown: What the template shows.
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
            alerts=alerts,
            style=Markup("".join(map(_file, ("frame.css", *styles)))),
            script=Markup(code),
            script_digest=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
            **shown,
        )
    )


def sections(folder: ModuleType, given: object) -> list[Section]:
    """What a page's sections show, without those that have nothing to show."""
    return [s for module in section_modules(folder) if (s := _section(module, given)) is not None]


@cache
def section_modules(folder: ModuleType) -> tuple[ModuleType, ...]:
    """Every section's module, in the order of the page."""
    found = [
        importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)
    ]
    return tuple(sorted(found, key=lambda module: int(module.ORDER)))


def _section(module: ModuleType, given: object) -> Section | None:
    content = module.content(given)
    if content is None:
        return None
    *_, folder, name = module.__name__.split(".")
    body = environment().get_template(f"{folder}/{name}.html.j2").render(**content)
    return Section(name=name, title=module.TITLE, note=module.NOTE, body=Markup(body))


@cache
def environment() -> Environment:
    """Templates that escape everything, and write out what a reader could not see."""
    return Environment(
        loader=PackageLoader("ortune.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_written_out,
    )


def _written_out(value: object) -> object:
    # Names may hold control and direction characters, which escaping leaves as they are.
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
