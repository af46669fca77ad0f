"""Who is told what happens while it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortune.records import Block
from ortune.search import duel


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who is told what happens while it happens.

    Attributes:
        say: Gets sentences for people.
        block: Gets the state after every block.
        stop: Asked before every trial; True ends racing and reports what is known.
        line: Gets the progress line of verbs that make their own.
    """

    say: Callable[[str], None] = lambda sentence: None
    block: Callable[[duel.Duel, duel.Design, Block], None] = lambda state, design, block: None
    stop: Callable[[], bool] = lambda: False
    line: Callable[[str], None] = lambda text: None
