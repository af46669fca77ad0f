"""The page that any verb writes beside its answer (``--report``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortune.experiment.clock import Stopwatch
from ortune.experiment.watcher import Watcher
from ortune.options.groups import Kept
from ortune.options.spelling import path, require_places

if TYPE_CHECKING:
    from ortune.records import Envelope
    from ortune.store.db import SessionLog


def run(verb: Any, options: Any, watcher: Watcher | None, began_s: float | None = None) -> Envelope[Any]:
    """Runs a verb and writes the page that was asked for; what is kept writes its own, once its answer is stored.

    Args:
        verb: Its module.
        options: What was asked.
        watcher: Is told what happens.
        began_s: When the invocation began, on the monotonic clock; None is now.

    Raises:
        UsageError: A file that was asked for cannot be written; where that can be seen before anything is done, it is.
        OrtuneError: As the verb itself.
    """
    watcher = replace(watcher or Watcher(), clock=Stopwatch(began_s))
    require_places(options)
    page = path(getattr(options, "report", None))  # a verb without words of its own has no page
    envelope: Envelope[Any]
    if page is None or isinstance(options, Kept):
        envelope = verb.run(options, watcher)
        return envelope
    if hasattr(options, "timeline"):  # a page shows what ran when
        options = replace(options, timeline=True)
    envelope = verb.run(options, watcher)
    write_page(envelope, page, watcher)
    return envelope


def write_page(
    envelope: Envelope[Any], page: Path, watcher: Watcher | None, log: SessionLog | None = None
) -> None:
    """Writes an answer as a page.

    Raises:
        UsageError: It cannot be written; where the answer is stored, that is said.
    """
    from ortune.profiling import deliver
    from ortune.report.html import pages

    deliver.write_page(pages.render(envelope), page, log)
    if watcher is not None:
        watcher.say(f"the page is {page}")
