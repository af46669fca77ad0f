"""Name of the result field that becomes a table in Python."""

from __future__ import annotations

TABLE = "rows"
