"""One file a verb: what happens, in order, and what it can be asked; no arguments parsed, nothing printed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.measuring.watcher import Watcher
    from ortune.records import Envelope


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
    from ortune.measuring.clock import Stopwatch
    from ortune.measuring.watcher import Watcher
    from ortune.verbs._shared.groups import Kept
    from ortune.verbs._shared.page import write_page
    from ortune.verbs._shared.spelling import path, require_places

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
