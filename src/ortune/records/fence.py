"""The limits of a confined process."""

from __future__ import annotations

from ortune.records.base import Record


class Fence(Record, frozen=True, kw_only=True):
    """Limits of a confined process, which may only write to its own folder.

    Attributes:
        reads: Files and folders that it may read in addition to its environment.
        memory_bytes: Limit of the process's own memory; 0 for none.
        file_bytes: Limit of the size of each file that it writes; 0 for none.
    """

    reads: tuple[str, ...]
    memory_bytes: int = 0
    file_bytes: int = 0
