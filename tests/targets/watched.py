"""A page watched in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import ortune
from chromium import Site
from ortune.records import PageSession
from ortune.verbs.diagnose.result import DiagnoseResult


def watched(site: Site, store: Path) -> ortune.Answer[DiagnoseResult]:
    """What is told of a page, watched until it says that it is over."""
    page = f"http://127.0.0.1:{site.port}/"
    return ortune.diagnose(
        page=page, watch="60s", store=store, watcher=ortune.Watcher(stop=lambda: not site.answers.empty())
    )


def sessions(answer: ortune.Answer[DiagnoseResult]) -> list[PageSession]:
    assert answer.result is not None and answer.result.page is not None
    return list(answer.result.page.sessions)
