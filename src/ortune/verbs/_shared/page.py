"""Writes the page for ``--report``, which every verb supports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.measuring.watcher import Watcher
    from ortune.records import Envelope
    from ortune.store.db import SessionLog


def write_page(
    envelope: Envelope[Any], page: Path, watcher: Watcher | None, log: SessionLog | None = None
) -> None:
    """Write a result as a page.

    Raises:
        UsageError: The page cannot be written. The error mentions the stored result, if there is one.
    """
    from ortune.engines.profiling import deliver
    from ortune.show.html import pages

    deliver.write_page(pages.render(envelope), page, log)
    if watcher is not None:
        watcher.say(f"the page is {page}")
