"""Name of the result field of ``ortune bench app.workload`` that becomes a table in Python."""

from __future__ import annotations

TABLE = "rows"
