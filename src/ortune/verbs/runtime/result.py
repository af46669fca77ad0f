"""Result of ``ortune runtime``: installed and addable runtimes."""

from __future__ import annotations

from typing import Literal

from ortune.records import AddableRuntime, MadeRuntime
from ortune.records.base import Record


class RuntimeResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune runtime --json``.

    Attributes:
        folder: Folder of the environments.
        runtimes: The installed runtimes.
        changed: Names of the runtimes that were added or removed.
        addable: Other runtimes that can be installed here.
    """

    action: Literal["add", "list", "remove"]
    folder: str
    runtimes: tuple[MadeRuntime, ...] = ()
    changed: tuple[str, ...] = ()
    addable: tuple[AddableRuntime, ...] = ()
