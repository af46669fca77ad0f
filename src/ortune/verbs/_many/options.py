"""The part of an answer about several models that a table of Python has."""

from __future__ import annotations

TABLE = "models"
