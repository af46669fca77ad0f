"""Folders for ortune's results and caches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ortune.errors import StoreError


def data_folder() -> Path:
    """Return ``$XDG_DATA_HOME/ortune``, or the platform's usual folder for application data.

    Raises:
        StoreError: If the user has no home folder.
    """
    return _place(
        "XDG_DATA_HOME",
        "choose a place with --store PATH",
        mac="Library/Application Support/ortune",
        windows="ortune",
        other=".local/share/ortune",
    )


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/ortune``, or the platform's usual folder for caches.

    Raises:
        StoreError: If the user has no home folder.
    """
    return _place(
        "XDG_CACHE_HOME",
        "set XDG_CACHE_HOME to a writable folder",
        mac="Library/Caches/ortune",
        windows="ortune/Cache",
        other=".cache/ortune",
    )


def _place(variable: str, do: str, *, mac: str, windows: str, other: str) -> Path:
    """Return ortune's folder in the folder that ``variable`` names, or else in the user's home or application data."""
    if os.environ.get(variable):
        return Path(os.environ[variable]) / "ortune"
    home = _home(do)
    if sys.platform == "darwin":
        return home / mac
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / windows
    return home / other


def _home(do: str) -> Path:
    try:
        return Path.home()
    except RuntimeError as error:  # neither $HOME nor an entry in the user database
        raise StoreError("the home directory is unknown", where="HOME", do=do) from error
