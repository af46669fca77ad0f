"""Where ortune keeps what it measured."""

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
    try:
        home = Path.home()
    except RuntimeError as error:  # neither $HOME nor an entry in the system's list of users
        raise StoreError(
            "no home folder is known", where="HOME", do="choose a place with --store PATH"
        ) from error
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "ortune"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "ortune"
    return home / ".local" / "share" / "ortune"
