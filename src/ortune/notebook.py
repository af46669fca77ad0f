"""Progress of a function in a Jupyter notebook, shown in the running cell."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ortune import monotonic

if TYPE_CHECKING:
    from ortune.step import Step

LEAST_S = 1.0
"""Minimum seconds between updates of the bar, since each is a message to the page."""


def runs_here() -> bool:
    """Return whether this process is the kernel of a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Step], None]]:
    """Show a bar in the running cell, and remove it at the end."""
    from ortune.show.progress import html

    page = importlib.import_module("IPython.display")  # only here, so not a dependency
    start_s = monotonic.now_s()
    shown_s = start_s - LEAST_S
    handle = page.display(page.HTML("starting"), display_id=True)

    def show(step: Step) -> None:
        nonlocal shown_s
        now_s = monotonic.now_s()
        if now_s - shown_s >= LEAST_S:
            handle.update(page.HTML(html(step, now_s - start_s)))
            shown_s = now_s

    try:
        yield show
    finally:
        handle.update(page.HTML(""))
