"""The page: sections found by walking their folder, each with a template of its name.

A section is a module in ``sections/`` with a docstring, ``ORDER``, ``TITLE``, ``NOTE`` (how to read it, one or two
sentences, may be "") and ``content(envelope)``, which returns what its template shows, or None to be left out.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import ModuleType

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ortune.records import Envelope, TuneResult
from ortune.report import escape
from ortune.report import tune_words as words
from ortune.report.html import sections


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One rendered section."""

    name: str
    title: str
    note: str
    body: Markup


def render(envelope: Envelope[TuneResult]) -> str:
    """The whole report of a tuning as one HTML document.

    Args:
        envelope: The document of ``ortune tune``.
    """
    result = envelope.result
    rendered = [s for module in section_modules() if (s := _section(module, envelope)) is not None]
    verdict, *rest = rendered
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=result.side.label,
            style=Markup(files(__package__).joinpath("style.css").read_text(encoding="utf-8")),
            headline=result.headline or words.headline(result),
            verdict=verdict,
            sections=rest,
            envelope=envelope,
            result=result,
        )
    )


@cache
def section_modules() -> tuple[ModuleType, ...]:
    """Every section's module, in the order of the page."""
    found = [
        importlib.import_module(f"{sections.__name__}.{m.name}")
        for m in pkgutil.iter_modules(sections.__path__)
    ]
    return tuple(sorted(found, key=lambda module: int(module.ORDER)))


def _section(module: ModuleType, envelope: Envelope[TuneResult]) -> Section | None:
    content = module.content(envelope)
    if content is None:
        return None
    name = module.__name__.rpartition(".")[2]
    body = environment().get_template(f"{name}.html.j2").render(**content)
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
        return escape.visible(value)
    return value
