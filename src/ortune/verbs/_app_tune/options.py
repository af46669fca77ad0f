"""Name of the result field of ``ortune tune app.workload`` that becomes a table in Python."""

from __future__ import annotations

TABLE = "candidates"
