"""Pauses of Python's garbage collection, which makes reading or copying a graph several times slower."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the collection of reference cycles.

    A large graph consists of millions of objects that stay alive. Copies dropped during the pause are freed by the
    first collection afterwards, which only examines objects created during the pause.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
