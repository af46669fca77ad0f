"""Code that loads a bundle: a table and a template for each language, discovered by walking this folder.

A language is a module with ``LANGUAGE``, which defines its spelling of a plan and what it does not support
(``_source.Language``), and a template ``templates/FILE.j2`` of its file.
"""

from __future__ import annotations

import importlib
import pkgutil

from ortune.bundle.languages._source import Language, claim
from ortune.records import BundleInfo

__all__ = ["claim", "emit_all", "languages"]


def languages() -> list[Language]:
    """Return every language in which bundles contain loading code: the ``LANGUAGE`` of each module in this package."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}").LANGUAGE for name in names]


def emit_all(info: BundleInfo, custom_ops: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the loading code of every language, as a mapping from file name to text."""
    return {language.file: language.emit(info, custom_ops) for language in languages()}
