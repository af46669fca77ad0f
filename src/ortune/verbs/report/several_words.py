"""Sentences about several stored sessions that are shown next to each other."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.printable import listed

NO_CLAIM = (
    "measured separately: each result holds only within its own blocks; "
    "differences between sessions are unconfirmed"
)
NOT_COMPARABLE = "their times must not be compared"
PROFILED_RUN = "mean steady run, profiled"
REQUEST = "time of a request (bench)"
WHERE_TIME_GOES = "where the time goes"
_STANDING = {"nothing-tested": "nothing was tested", "not-shown": "no improvement found"}


def not_comparable(properties: Sequence[str]) -> str:
    """Return the warning that the times of sessions with different properties must not be compared."""
    differ = "differs" if len(properties) == 1 else "differ"
    return f"{listed(properties)} {differ}: {NOT_COMPARABLE}"


def no_result(sessions: Sequence[str]) -> str:
    """Return the warning that the times of sessions without a finished result must not be compared."""
    return f"no finished result of {', '.join(sessions)}: {NOT_COMPARABLE}"


def standing(certainty: str) -> str:
    """Return the verdict in words of a session in which no new side was confirmed."""
    return _STANDING.get(certainty, "no better configuration found")


def not_timed(*, comparable: bool) -> str:
    """Return the reason that a new side has no comparison, which may be its outputs."""
    return "not timed" if comparable else "wrong outputs: not timed"
