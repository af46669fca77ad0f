"""Where ortune keeps what it measured, and what it made to measure with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ortune.errors import StoreError


def data_folder() -> Path:
    """``$XDG_DATA_HOME/ortune``, or the platform's usual place for application data.

    Raises:
        StoreError: The user has no home folder.
    """
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "ortune"
    home = _home("choose a place with --store PATH")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "ortune"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "ortune"
    return home / ".local" / "share" / "ortune"


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/ortune``, or the platform's usual place for what can be made again.

    Raises:
        StoreError: The user has no home folder.
    """
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "ortune"
    home = _home("set XDG_CACHE_HOME")
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "ortune"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "ortune" / "Cache"
    return home / ".cache" / "ortune"


def _home(do: str) -> Path:
    try:
        return Path.home()
    except RuntimeError as error:  # neither $HOME nor an entry in the system's list of users
        raise StoreError("no home folder is known", where="HOME", do=do) from error
