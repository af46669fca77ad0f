"""Name of the field of ``ManyResult`` that becomes a table in Python."""

from __future__ import annotations

TABLE = "models"
