"""How the options of a verb say what it measures, and where its answer goes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from ortune.experiment.opening import Experiment, Terms, open_experiment
from ortune.records import Envelope, Plan, Record
from ortune.trials.watcher import Watcher
from ortune.verbs._options import Feeding, Kept, OnePlan, Stored, path
from ortune.verbs._page import write_page

R = TypeVar("R", bound=Record)


def terms(options: Feeding) -> Terms:
    """What options say of how their verb measures."""
    return Terms(
        feeds=options.feeds,
        common=options.common if isinstance(options, OnePlan) else Plan(),
        browser=getattr(options, "in_browser", None),
        wait=not getattr(options, "no_wait", False),
        budget_s=getattr(options, "budget_s", None),
        stored=isinstance(options, Stored),
        folder=options.folder if isinstance(options, Stored) else None,
    )


@contextlib.contextmanager
def experiment(verb: str, options: Feeding, watch: Watcher) -> Iterator[Experiment]:
    """The experiment of a verb, as its options have it."""
    with open_experiment(verb, terms(options), watch) as opened:
        yield opened


def keep(opened: Experiment, options: Kept, envelope: Envelope[R]) -> Envelope[R]:
    """Keeps the answer, and writes the page that was asked for.

    Raises:
        UsageError: The page cannot be written; what was measured is stored.
    """
    envelope = opened.keep(envelope)
    page = path(options.report)
    if page is not None:
        write_page(envelope, page, opened.watch, opened.log)
    return envelope
