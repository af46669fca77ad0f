"""Tests of what a budget holds: on a slow machine, or beside a busy neighbour, a longer one is needed."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from ortune.measuring import timing

T = TypeVar("T")

USUAL_START_S = 0.3
"""What a process takes to import ONNX Runtime where the budgets of the tests were chosen."""
MOST_LONGER = 2.5


class TooShort(AssertionError):
    """The budget did not hold what the test is about."""


def held(what: object, said: object = "") -> None:
    """Requires what only a longer budget may bring."""
    if not what:
        raise TooShort(said)


def with_budgets(run: Callable[[str], T], *budgets_s: int) -> T:
    """What ``run`` gives with the first of the budgets, as long as this machine needs them, that is not too short."""
    for budget_s in budgets_s[:-1]:
        try:
            return run(longer(budget_s))
        except TooShort:
            continue
    return run(longer(budgets_s[-1]))


def longer(budget_s: int) -> str:
    """A budget with which this machine does what the usual one does in so many seconds: trials are mostly starts."""
    return f"{math.ceil(budget_s * _times_as_long())}s"


@functools.cache
def _times_as_long() -> float:
    """At least 1. The fastest of four starts: others may meet a burst of the tests beside, or read from the disk."""
    started = []
    for _ in range(4):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import onnxruntime"], check=True)
        started.append(time.monotonic() - began)
    return min(max(min(started) / USUAL_START_S, 1.0), MOST_LONGER)


FEW_TURNS = (
    sys.executable,
    "-c",
    "from ortune.measuring import timing; timing.MOST_ROUNDS = timing.LEAST_ROUNDS; "
    "from ortune.cli.main import main; main()",
)
"""The program as a process of its own, whose trials are as those of ``few_turns``."""


def forked_workers(folder: Path, *, steady: bool = False) -> tuple[str, ...]:
    """The same, whose workers are forks, as those of the tests' own process are; what they need is kept in a folder.

    With ``steady``, its machine is one of ``steady.Steady``.
    """
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.append({here!r}); import warm_workers; warm_workers.use({str(folder)!r}); "
    return (*FEW_TURNS[:2], code + ("import steady; steady.use(); " if steady else "") + FEW_TURNS[2])


@contextmanager
def few_turns() -> Iterator[None]:
    """Trials within this process take the fewest turns there may be: where what is asked needs no sharper figures.

    They are then half as long: of a small model, turns cost more than the start.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "MOST_ROUNDS", timing.LEAST_ROUNDS)
        yield
