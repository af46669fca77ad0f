import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from box import Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    assert made.workers() == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a trial in a browser is; nothing that runs in it may be left."""
    from browser_trials import PATIENCE_S, members

    yield tmp_path
    deadline = time.monotonic() + PATIENCE_S
    while left := members(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
