"""The limits of a confined process."""

from __future__ import annotations

from ortune.records.base import Record


class Fence(Record, frozen=True, kw_only=True):
    """Limits of a process: the files that it may read besides its environment. It writes to its own folder alone.

    Attributes:
        reads: Files and folders.
        memory_bytes: Limit of its own memory; 0 is none.
        file_bytes: Limit of a file that it writes; 0 is none.
    """

    reads: tuple[str, ...]
    memory_bytes: int = 0
    file_bytes: int = 0
