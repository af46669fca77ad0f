"""The TOML files of the catalogue.

Every process needs the providers, even one that only loads a bundle. The settings are ten times as long, and only
commands that measure or explain read them. Each file therefore begins with its provider, and the two parts are parsed
separately.
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
    """Return the provider part and the settings part of every file by stem, sorted by stem."""
    texts = {}
    for file in sorted(file for folder in FOLDERS for file in folder.glob("*.toml")):
        text = file.read_text(encoding="utf-8")
        first = _SETTING.search(text)
        end = first.start() if first else len(text)
        texts[file.stem] = (text[:end], text[end:])
    return texts


@cache
def provider_tables() -> dict[str, dict[str, Any]]:
    """Return the tables of each file that describe providers: ``provider`` or ``providers``."""
    return {name: tomllib.loads(provider) for name, (provider, _) in _texts().items()}


@cache
def setting_tables() -> dict[str, dict[str, Any]]:
    """Return the tables of each file that describe settings: ``settings`` and ``general``."""
    return {name: tomllib.loads(settings) for name, (_, settings) in _texts().items()}


def clear_caches() -> None:
    """Clear the caches, so files are read again after ``FOLDERS`` has changed."""
    for cached in (_texts, provider_tables, setting_tables):
        cached.cache_clear()
