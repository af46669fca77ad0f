"""Runtimes that could be installed, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import AddableRuntime
from ortune.show.numbers import size


def offers(addable: Sequence[AddableRuntime]) -> list[str]:
    """Return a sentence for each runtime that could be installed, with its purpose, packages, size and command."""
    return [
        f"{addition.name}: {addition.what} ({' '.join(addition.packages)}; {_cost(addition)}) -> {addition.command}"
        for addition in addable
    ]


def _cost(addition: AddableRuntime) -> str:
    download = f"{size(addition.download_bytes)} to download, " if addition.download_bytes else ""
    return f"{download}about {size(addition.about_bytes)} on disk"
