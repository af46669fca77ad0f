"""One folder per verb: its options, its steps in order, its result and its words; nothing is printed here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.measuring.watcher import Watcher
    from ortune.records import Envelope


def run(verb: Any, options: Any, watcher: Watcher | None, began_s: float | None = None) -> Envelope[Any]:
    """Run a verb, and write the page of ``--report``; stored measurements write theirs after they are stored.

    Args:
        verb: Module of the verb.
        options: Options of the verb.
        watcher: Progress and cancellation callbacks.
        began_s: Start of the invocation on the monotonic clock; None for now.

    Raises:
        UsageError: A file cannot be written; found before the verb runs, if possible.
        OrtuneError: As the verb itself.
    """
    from ortune.measuring.clock import Stopwatch
    from ortune.measuring.watcher import Watcher
    from ortune.verbs._shared.groups import Kept
    from ortune.verbs._shared.page import write_page
    from ortune.verbs._shared.spelling import require_places, with_timeline

    watcher = replace(watcher or Watcher(), clock=Stopwatch(began_s))
    page = require_places(options).get("--report")
    if page is None or isinstance(options, Kept):
        answer: Envelope[Any] = verb.run(options, watcher)
        return answer
    envelope: Envelope[Any] = verb.run(with_timeline(options), watcher)
    write_page(envelope, page, watcher)
    return envelope
