"""The TOML files of the catalogue.

Providers are known to every process, also to one that only loads a bundle; settings, ten times as long, are read by
what measures or explains. So each file begins with its provider, and the two parts are parsed separately.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDERS = [Path(__file__).parent]
"""Folders that are searched for files."""

_SETTING = re.compile(r"^\[(settings|general)\.", re.MULTILINE)


@cache
def _texts() -> dict[str, tuple[str, str]]:
    """Return the two parts of every file, by its name without the suffix, in the order of the names."""
    texts = {}
    for file in sorted(file for folder in FOLDERS for file in folder.glob("*.toml")):
        text = file.read_text(encoding="utf-8")
        first = _SETTING.search(text)
        end = first.start() if first else len(text)
        texts[file.stem] = (text[:end], text[end:])
    return texts


@cache
def provider_tables() -> dict[str, dict[str, Any]]:
    """Return the tables of every file that describe providers: ``provider`` or ``providers``."""
    return {name: tomllib.loads(provider) for name, (provider, _) in _texts().items()}


@cache
def setting_tables() -> dict[str, dict[str, Any]]:
    """Return the tables of every file that describe settings: ``settings`` and ``general``."""
    return {name: tomllib.loads(settings) for name, (_, settings) in _texts().items()}


def forget() -> None:
    """Read the files again on next use, because another folder has some."""
    for cached in (_texts, provider_tables, setting_tables):
        cached.cache_clear()
