"""How the options of a verb say what it measures, and where its answer goes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from ortune import __version__
from ortune.measuring.input_options import InputOptions
from ortune.measuring.opening import Experiment, open_experiment
from ortune.measuring.sides import Resolved
from ortune.measuring.terms import Terms
from ortune.measuring.watcher import Watcher
from ortune.records import PROTOCOL_VERSION, Envelope, Plan, Record
from ortune.verbs._shared.groups import Feeding, Kept, OnePlan, Stored
from ortune.verbs._shared.page import write_page
from ortune.verbs._shared.spelling import path, words

R = TypeVar("R", bound=Record)


class Resuming(Protocol):
    """Options of a measurement that can go on where it was interrupted."""

    @property
    def feeds(self) -> InputOptions:
        """What the model is fed."""
        ...

    @property
    def resume(self) -> str | None:
        """The session to go on with, as ``--resume`` names it; None begins anew."""
        ...


def terms(options: Feeding, *, timed: bool = True) -> Terms:
    """What options say of how their verb measures; ``timed``, whether it measures times."""
    by_memory = getattr(options, "objective", "") == "memory"
    return Terms(
        feeds=replace(options.feeds, in_turn=True) if by_memory else options.feeds,
        common=options.common if isinstance(options, OnePlan) else Plan(),
        browser=getattr(options, "in_browser", None),
        timed=timed,
        wait=not getattr(options, "no_wait", False),
        wait_quiet_s=options.wait_quiet_s if isinstance(options, Stored) else 0.0,
        budget_s=getattr(options, "budget_s", None),
        stored=isinstance(options, Stored),
        folder=options.folder if isinstance(options, Stored) else None,
    )


@contextlib.contextmanager
def experiment(verb: str, options: Feeding, watch: Watcher, *, timed: bool = True) -> Iterator[Experiment]:
    """The experiment of a verb, as its options have it; ``timed`` as in ``terms``."""
    with open_experiment(verb, terms(options, timed=timed), watch) as opened:
        yield opened


def go_on(opened: Experiment, options: Resuming, sides: Sequence[Resolved], **names: str) -> None:
    """Begins the journal, or goes on with that of an interrupted session of the same question.

    Nothing stale: another build, another machine or other inputs make another session.

    Args:
        opened: What is measured, its machine taken.
        options: What was asked.
        sides: What is run.
        names: Of the sides, for the journal's header.

    Raises:
        UsageError: There is no such session, or it cannot be read.
    """
    feeds = options.feeds
    builds = [
        (runtime.package, runtime.ort_version, runtime.ort_web)
        for side in sides
        for runtime in (side.runtime, *side.elsewhere.values())
    ]
    files = [feeds.inputs, feeds.workload, feeds.data, *map(Path, feeds.custom_ops)]
    files.append(
        Path(f"{feeds.metric.partition(':')[0].replace('.', '/')}.py") if ":" in feeds.metric else None
    )
    question = (
        __version__,
        PROTOCOL_VERSION,
        words(options),
        builds,
        opened.machine.seen.fingerprint,
        [_stamp(file) for file in files],
    )
    shas = " ".join(f"{side.model.info.sha256} {side.plan.id}" for side in sides)
    key = f"{shas} {hashlib.sha256(repr(question).encode()).hexdigest()[:16]}"
    if options.resume is None:
        opened.begin(key, names)
    else:
        opened.resume(key, options.resume)


def _stamp(inputs: Path | None) -> str:
    """Changes when the user's input files do."""
    if inputs is None:
        return ""
    files = sorted(inputs.rglob("*")) if inputs.is_dir() else [inputs]
    return repr([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()])


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
