"""The part of an answer about a recording that a table of Python has."""

from __future__ import annotations

TABLE = "changes"
