"""What the tests of several verbs share."""

from __future__ import annotations

import pytest

from ortune.engines.profiling import processes


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs are profiled: what is told of the graph does not depend on how many they are."""
    monkeypatch.setattr(processes, "runs_within", lambda *_: 16)
