"""Runtimes that ortune made, for the tests that need one: under .cache, made once and kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortune.errors import RuntimeNotFound
from ortune.records import MadeRuntime
from ortune.runtimes import made

CACHE = Path(__file__).resolve().parents[1] / ".cache"


def require(name: str, cache: Path = CACHE) -> MadeRuntime:
    """The runtime of that name; the test is skipped where it is not there and the index cannot be reached.

    From here on the process, and those that it starts, use the kept environments.
    """
    os.environ["XDG_CACHE_HOME"] = str(cache)
    try:
        return made.require_installed(name, print)
    except RuntimeNotFound as error:
        if not any(words in error.what for words in ("unreachable", "has no", "not supported")):
            raise
        pytest.skip(f"NOT TESTED, {name} is needed: {error.what}")
