"""The part of a recording that a search plays, and the properties of it that determine the stages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ortune.catalogue.named import ENABLE_CPU_MEM_ARENA as ARENA
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.inputs.played import ReplayPart
from ortune.measuring.application import Application
from ortune.measuring.recorded_settings import settings_of
from ortune.records import Recording, Value
from ortune.search import application as search
from ortune.verbs._app_bench.run import extended
from ortune.verbs._app_tune import figures

LEAST_CALLS = 5
EQUAL_SESSIONS = 2
MANY_SHAPES = 4
"""Number of distinct input shapes in one session from which memory patterns may cost more than they save."""


def long_enough(application: Application, most_ns: float) -> ReplayPart:
    """Return a part that plays in `most_ns`, extended until it has enough calls and any shareable sessions.

    A part with a single session cannot show the gain of sharing.
    """
    whole = application.script(math.inf)
    sharing = is_shareable(application.recording, whole)

    def is_enough(played: ReplayPart) -> bool:
        shown = not sharing or is_shareable(application.recording, played)
        return played.calls >= LEAST_CALLS and shown

    return extended(application, most_ns, whole, is_enough)


def is_shareable(recording: Recording, played: ReplayPart) -> bool:
    """Return whether a played Python process creates equal sessions several times."""
    for script in played.scripts if recording.is_python else ():
        sessions = [recording.sessions[index] for index in script.sessions]
        asked = Counter(repr((each.model, sorted(settings_of(each).items()))) for each in sessions)
        if max(asked.values(), default=0) >= EQUAL_SESSIONS:
            return True
    return False


def seen_of(
    application: Application,
    played: ReplayPart,
    cpus: int,
    current: Mapping[str, Value],
    of_models: Sequence[int],
) -> search.ApplicationFacts:
    """Return the properties of an application from which the stages of a search are chosen.

    Args:
        application: The application.
        played: The part that is played.
        cpus: Number of CPUs of the machine.
        current: Settings that replace those of all recorded sessions.
        of_models: Number of candidates in each stage that changes a single model.
    """
    recording = application.recording
    settings: list[Mapping[str, Value]] = []
    for script in played.scripts:
        settings += [{**settings_of(recording.sessions[index]), **current} for index in script.sessions]
    feeds = [feed for script in played.scripts for feed in script.feeds]
    forms: set[search.Form] = set()
    forms |= {"lists"} if any(feed.lists for feed in feeds) else set()
    forms |= {"strides"} if any(feed.strided for feed in feeds) else set()
    single, joined = (figures.n_calls(each) for each in (played, application.batched(played)))
    forms |= {"batches"} if 2 * joined <= single else set()
    shapes = [len({calls.inputs for calls in session.calls}) for session in recording.sessions]
    return search.ApplicationFacts(
        cpus=cpus,
        processes=len(played.scripts),
        shareable=is_shareable(recording, played),
        pools=any(own.get(THREADS.name) != 1 for own in settings),
        arena_off=any(own.get(ARENA.name) is False for own in settings),
        many_shapes=max(shapes, default=0) >= MANY_SHAPES,
        forms=frozenset(forms),
        models=tuple(of_models),
    )
