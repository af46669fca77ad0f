"""The page of ``--report``, which every verb can write."""

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
    """Write an answer as a page.

    Raises:
        UsageError: It cannot be written; where the answer is stored, that is said.
    """
    from ortune.engines.profiling import deliver
    from ortune.show.html import pages

    deliver.write_page(pages.render(envelope), page, log)
    if watcher is not None:
        watcher.say(f"the page is {page}")
