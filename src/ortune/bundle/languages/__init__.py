"""The code that loads a bundle, one module a language, found by walking this folder.

A language is a module with ``emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]``: file name
to text. ``custom_ops`` are libraries inside the bundle, relative to it. Names of models are hostile until quoted:
they go into the text as literals of the language, never into comments.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from importlib.resources import files

from ortune.records import BundleInfo


def emit_all(info: BundleInfo, custom_ops: tuple[str, ...] = ()) -> dict[str, str]:
    """The files of every language, by name."""
    emitted: dict[str, str] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            language = importlib.import_module(f"{__name__}.{module.name}")
            emitted.update(language.emit(info, custom_ops))
    return emitted


def fill(template: str, places: Mapping[str, str]) -> str:
    """The template with each ``@@NAME@@`` replaced, in one pass: what is put in is not looked at again."""
    text = files(__name__).joinpath("templates", template).read_text(encoding="utf-8")
    return re.sub(r"@@([A-Z_]+)@@", lambda found: places[found.group(1)], text)
