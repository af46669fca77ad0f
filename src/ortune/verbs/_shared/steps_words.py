"""Names of measurement steps that several verbs show as progress."""

from __future__ import annotations

PLANNING = "timing a few runs, to plan the session"
