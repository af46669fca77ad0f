"""What holds for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share what their module makes once run in one process, or it would be made in each."""
    for item in items:
        named = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
        shared = any(each.scope == "module" and each.baseid for several in named for each in several)
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session", autouse=True)
def _own_lock(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each worker of the test run has a machine lock of its own.

    Measurements of two workers would else wait for each other, for minutes in all. Those that wait for a verdict run
    one after another as they are; the others ask for no speed.
    """
    os.environ["ORTUNE_LOCK"] = str(Path(tmp_path_factory.getbasetemp()) / "machine.lock")
