"""Opens the experiment, the journal and the page that a verb's options describe."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ortune import __version__
from ortune.inputs.recording_file import split
from ortune.measuring.opening import Experiment, open_experiment
from ortune.measuring.sides import ResolvedSide
from ortune.measuring.watcher import Watcher
from ortune.records import PROTOCOL_VERSION, Envelope, Record
from ortune.verbs._shared.groups import BudgetOptions, FeedOptions
from ortune.verbs._shared.page import write_page
from ortune.verbs._shared.spelling import path, words

R = TypeVar("R", bound=Record)


@contextlib.contextmanager
def experiment(
    verb: str, options: FeedOptions, watch: Watcher, *, timed: bool = True
) -> Iterator[Experiment]:
    """Open the experiment that a verb's options describe.

    Args:
        verb: Name of the verb.
        options: Options of the verb.
        watch: Progress and cancellation callbacks.
        timed: Whether the verb measures times.
    """
    with open_experiment(verb, replace(options.terms, timed=timed), watch) as opened:
        yield opened


def begin_or_resume(
    opened: Experiment,
    options: FeedOptions,
    sides: Sequence[ResolvedSide],
    resume: str | None,
    files: Sequence[Path] = (),
    /,
    **names: str,
) -> None:
    """Begin a new journal, or resume the journal of an interrupted session with the same options.

    A session cannot be resumed with a different build or machine, or with changed input files.

    Args:
        opened: The experiment, which has acquired the machine.
        options: Options of the verb.
        sides: The sides that run.
        resume: Value of ``--resume``: id of a session, "newest" for the newest session, None for a new session.
        files: Further files on which the result depends.
        names: Names of the sides for the header of the journal.

    Raises:
        UsageError: The session to resume does not exist or cannot be read.
    """
    feeds = options.feeds
    builds = [
        (runtime.package, runtime.ort_version, runtime.ort_web, runtime.node)
        for side in sides
        for runtime in (side.runtime, *side.elsewhere.values())
    ]
    work = feeds.workload and split(feeds.workload)[0]
    read = [*files, feeds.inputs, work, feeds.data, *map(Path, feeds.custom_ops)]
    read.append(
        Path(f"{feeds.metric.partition(':')[0].replace('.', '/')}.py") if ":" in feeds.metric else None
    )
    question = (
        __version__,
        PROTOCOL_VERSION,
        words(options),
        builds,
        opened.machine.trial_host.fingerprint,
        [_stamp(file) for file in read],
    )
    shas = " ".join(f"{side.model.info.sha256} {side.plan.id}" for side in sides)
    key = f"{shas} {hashlib.sha256(repr(question).encode()).hexdigest()[:16]}"
    if resume is None:
        opened.begin(key, names)
    else:
        opened.resume(key, resume)


def _stamp(inputs: Path | None) -> str:
    """Return the paths, sizes and modification times of input files, which reveal changes; "" without files."""
    if inputs is None:
        return ""
    files = sorted(inputs.rglob("*")) if inputs.is_dir() else [inputs]
    return repr([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()])


def store_result(opened: Experiment, options: BudgetOptions, envelope: Envelope[R]) -> Envelope[R]:
    """Store the result, and write the page of ``--report``.

    Raises:
        UsageError: The page cannot be written, although the result was stored.
    """
    envelope = opened.store_answer(envelope)
    page = path(options.report)
    if page is not None:
        write_page(envelope, page, opened.watch, opened.log)
    return envelope
