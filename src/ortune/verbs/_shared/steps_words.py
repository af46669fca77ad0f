"""Names of measurement steps that several verbs show as progress."""

from __future__ import annotations

PLANNING = "timing a few runs, to plan the session"


def first_run(name: str) -> str:
    """Return the name of the step that runs a side, or a release, for the first time."""
    return f"running {name} for the first time"
