"""Where ortune keeps what it measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """``$XDG_DATA_HOME/ortune``, or the platform's usual place for application data."""
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "ortune"
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "ortune"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "ortune"
    return home / ".local" / "share" / "ortune"
