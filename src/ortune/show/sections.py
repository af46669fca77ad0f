"""Sections that only pages show, because a terminal has no room for them: one folder per verb, one module per section.

A section is a module with a docstring, ``ORDER``, ``TITLE``, ``NOTE`` (how to read the section, may be "") and a
function ``blocks`` that returns the section's blocks. A section without blocks is left out.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from ortune.show.document import Section, filled


def sections(folder: ModuleType, subject: object) -> list[Section]:
    """Return the sections of a page that are not empty, in order.

    Args:
        folder: Package with the modules of the sections.
        subject: The object that the page shows, passed to each section's ``blocks``.
    """
    return [
        Section(title=module.TITLE, note=module.NOTE, name=module.__name__.rpartition(".")[2], blocks=blocks)
        for module in modules(folder)
        if (blocks := filled(module.blocks(subject)))
    ]


@cache
def modules(folder: ModuleType) -> tuple[ModuleType, ...]:
    """Return the modules of a page's sections, sorted by ``ORDER``."""
    names = [m.name for m in pkgutil.iter_modules(folder.__path__) if not m.name.startswith("_")]
    return tuple(
        sorted(
            (importlib.import_module(f"{folder.__name__}.{name}") for name in names),
            key=lambda module: int(module.ORDER),
        )
    )
