"""The code that loads a bundle: a table and a template for each language, found by walking this folder.

A language is a module with ``LANGUAGE``, how it spells a plan and what it cannot express (``_source.Language``), and
``templates/FILE.j2``, what its file looks like.
"""

from __future__ import annotations

import importlib
import pkgutil

from ortune.bundle.languages._source import Language, claim
from ortune.records import BundleInfo

__all__ = ["claim", "emit_all", "languages"]


def languages() -> list[Language]:
    """Return every language."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}").LANGUAGE for name in names]


def emit_all(info: BundleInfo, custom_ops: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the files of every language, by name."""
    return {language.file: language.emit(info, custom_ops) for language in languages()}
