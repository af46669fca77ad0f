"""Sections of pages for which a terminal has no room: one folder per verb, one module per section.

A section is a module with a docstring, ``ORDER``, ``TITLE``, ``NOTE`` (how to read it, may be "") and a function
``blocks`` that returns its blocks; a section without blocks is left out.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from ortune.show.document import Section, filled


def sections(folder: ModuleType, subject: object) -> list[Section]:
    """Return the sections of a page that are not empty, in order."""
    return [
        Section(title=module.TITLE, note=module.NOTE, name=module.__name__.rpartition(".")[2], blocks=blocks)
        for module in modules(folder)
        if (blocks := filled(module.blocks(subject)))
    ]


@cache
def modules(folder: ModuleType) -> tuple[ModuleType, ...]:
    """Return the modules of a page's sections, in the order of the page."""
    names = [m.name for m in pkgutil.iter_modules(folder.__path__) if not m.name.startswith("_")]
    return tuple(
        sorted(
            (importlib.import_module(f"{folder.__name__}.{name}") for name in names),
            key=lambda module: int(module.ORDER),
        )
    )
