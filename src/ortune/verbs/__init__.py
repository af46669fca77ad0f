"""One folder per verb with the verb's options, steps, result and words; nothing is printed here."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortune.measuring.clock import Stopwatch
    from ortune.measuring.watcher import Watcher
    from ortune.records import Envelope


def run_verb(
    verb: Any,
    options: Any,
    watcher: Watcher | None,
    began_s: float | None = None,
    clock: Stopwatch | None = None,
) -> Envelope[Any]:
    """Run a verb, and write its page and exports; a stored measurement writes its page after it is stored.

    Args:
        verb: Module of the verb.
        options: Options of the verb.
        watcher: Progress and cancellation callbacks.
        began_s: Start of the command on the monotonic clock, in seconds; None for now.
        clock: Stopwatch of the command, if the caller reads it too; None for a new one.

    Raises:
        UsageError: A file cannot be written; raised before the verb runs, if possible.
        OrtuneError: Any error of the verb.
    """
    from ortune.errors import OrtuneError
    from ortune.measuring.clock import Stopwatch
    from ortune.verbs._shared.groups import BudgetOptions
    from ortune.verbs._shared.page import write_page
    from ortune.verbs._shared.spelling import require_places, with_timeline
    from ortune.verbs._shared.watching import with_words

    watcher = replace(with_words(watcher), clock=clock or Stopwatch(began_s))
    page = require_places(options).get("--report")
    if isinstance(options, BudgetOptions):  # writes its own, once its answer is stored
        page = None
    try:
        envelope: Envelope[Any] = verb.run(options if page is None else with_timeline(options), watcher)
    except OrtuneError as error:
        from ortune.verbs._shared.defaults import name_file

        name_file(error, watcher.configured)
        raise
    if envelope.configured is None and watcher.configured is not None:
        import msgspec

        envelope = msgspec.structs.replace(envelope, configured=watcher.configured)
    if page is not None:
        write_page(envelope, page, watcher)
    export(options, envelope)
    return envelope


def export(options: Any, envelope: Envelope[Any]) -> None:
    """Write the files of ``--export``, if the verb has that option.

    Raises:
        UsageError: A file cannot be written.
    """
    from ortune.verbs._shared.exports import export
    from ortune.verbs._shared.groups import ExportOptions

    if isinstance(options, ExportOptions) and options.exports:
        model = str(getattr(options, "model", "") or getattr(options, "a", ""))
        export(options.exports, model, envelope, table_of(type(options)))


def table_of(options: type) -> str:
    """Return the name of the result's field whose records become the rows of the CSV file."""
    module = importlib.import_module(options.__module__)
    table: str = getattr(module, "EXPORTED", module.TABLE)
    return table
