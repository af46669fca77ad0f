"""Pauses of Python's garbage collection while a graph is read or copied, which it would make several times slower."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the collection of reference cycles.

    A large graph is millions of objects that stay. Copies that are dropped within the pause are freed by the first
    collection behind it, which looks at what was made meanwhile alone.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
