"""What holds for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_lock(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each worker of the test run has a machine lock of its own.

    Measurements of two workers would else wait for each other, for minutes in all. Those that wait for a verdict run
    one after another as they are; the others ask for no speed.
    """
    os.environ["ORTUNE_LOCK"] = str(Path(tmp_path_factory.getbasetemp()) / "machine.lock")
