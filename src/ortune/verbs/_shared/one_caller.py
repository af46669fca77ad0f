"""The workload of a profile, which has one caller even if more were requested."""

from __future__ import annotations

import msgspec

from ortune.records import Workload
from ortune.verbs._shared.load_words import load_words
from ortune.verbs.look import words as look_words


def one_caller(work: Workload) -> Workload:
    """Return the workload with a single caller and no pauses, with a note if a different load was requested.

    A profile of several callers would mix the nodes of their runs.
    """
    if (work.sessions, work.callers, work.gap_ns) == (1, 1, 0):
        return work
    note = look_words.one_caller(load_words(work))
    return msgspec.structs.replace(work, sessions=1, callers=1, gap_ns=0, notes=(*work.notes, note))
